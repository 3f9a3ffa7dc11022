"""Rules: a word that equals something simpler is rewritten wherever it stands, in products and in scalars.

An inverse J = (c A + B)^-1 has the rules J A = (I - J B) / c and A J = (I - B J) / c; an induction hypothesis may be a
rule too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from numerics.free_ring import scalars
from numerics.free_ring.functions import INVERTED, scalar_power
from numerics.free_ring.letters import Word, transposed
from numerics.free_ring.polynomials import Polynomial
from numerics.free_ring.scalars import Atom, Monomial, Scalar

ROUNDS = 20
"""How often rules are applied before a polynomial counts as one that they don't simplify."""


@dataclass(frozen=True)
class Rule:
    """`word` equals `value`."""

    word: Word
    value: Polynomial

    @property
    def T(self) -> Rule:
        """The same for the transposes."""
        return Rule(transposed(self.word), self.value.T)


def rule_of(equation: Polynomial) -> Rule | None:
    """The rule that says that a polynomial is zero, for its longest word."""
    if not equation.terms:
        return None
    word = max(equation.terms, key=lambda own: (len(own), own))
    scale = equation.terms[word]
    if not word or len(scale.terms) != 1:
        return None
    rest = Polynomial(equation.rows, equation.columns, {w: c for w, c in equation.terms.items() if w != word})
    return Rule(word, (-rest).times(scalar_power(scale, Fraction(-1))))


def reduced(p: Polynomial, rules: Iterable[Rule] = ()) -> Polynomial:
    """A polynomial with the given rules, those of the inverses in it, and their transposes applied."""
    given = [turned for rule in rules for turned in (rule, rule.T)]
    for _ in range(ROUNDS):
        own = given + [turned for rule in _of_inverses(p) for turned in (rule, rule.T)]
        changed = p
        for rule in own:
            changed = _applied(changed, rule)
        if changed == p:
            break
        p = changed
    return p


def _of_inverses(p: Polynomial) -> list[Rule]:
    """J A = (I - J B) / c and A J = (I - B J) / c for every inverse that stands in a polynomial."""
    words = [*p.terms, *(atom.word for scalar in p.terms.values() for atom in scalar.atoms())]
    letters = {
        letter if not letter.transposed else letter.T for word in words for letter in word if letter.base in INVERTED
    }
    found = []
    for letter in sorted(letters):
        inner = INVERTED[letter.base]
        rule = rule_of(inner - Polynomial.identity(inner.rows))
        if letter.power != -1 or rule is None or rule.word == ():
            continue
        own, one = Polynomial.of(letter), Polynomial.identity(inner.rows)
        lead = Polynomial.of(*rule.word)
        scale = scalar_power(inner.terms[rule.word], Fraction(-1))
        rest = inner - lead.times(inner.terms[rule.word])
        found.append(Rule((letter, *rule.word), (one - own @ rest).times(scale)))
        found.append(Rule((*rule.word, letter), (one - rest @ own).times(scale)))
    return found


def _applied(p: Polynomial, rule: Rule) -> Polynomial:
    total = Polynomial(p.rows, p.columns)
    for word, scalar in p.terms.items():
        place = _place(word, rule.word)
        value = _around(word, place, rule, p) if place is not None else _word(word, p)
        total = total + value.times(_in_scalar(scalar, rule))
    return total


def _word(word: Word, like: Polynomial) -> Polynomial:
    return Polynomial(like.rows, like.columns, {word: scalars.ONE})


def _around(word: Word, place: int, rule: Rule, like: Polynomial) -> Polynomial:
    """The word with the rule's value in the place of its letters."""
    before, after = word[:place], word[place + len(rule.word) :]
    value = rule.value
    if before:
        value = Polynomial.of(*before) @ value
    return value @ Polynomial.of(*after) if after else value


def _place(word: Word, part: Word) -> int | None:
    """Where a word has a part in it."""
    places = range(len(word) - len(part) + 1)
    return next((k for k in places if word[k : k + len(part)] == part), None)


def _in_scalar(scalar: Scalar, rule: Rule) -> Scalar:
    """The rule applied to the inner products of a scalar."""
    total = scalars.ZERO
    for monomial, value in scalar.terms.items():
        total = total + _in_monomial(monomial, rule) * scalars.number(value)
    return total


def _in_monomial(monomial: Monomial, rule: Rule) -> Scalar:
    product = scalars.ONE
    for atom, power in monomial:
        place = _place(atom.word, rule.word) if power.denominator == 1 and power > 0 and atom.startswith("(") else None
        own = Scalar({((atom, Fraction(1)),): Fraction(1)})
        if place is not None:
            own = _around(atom.word, place, rule, Polynomial("1", "1")).value
        product = product * (own.power(power) if place is not None else Scalar({((atom, power),): Fraction(1)}))
    return product


@dataclass(frozen=True)
class Relation:
    """A power of an atom equals a scalar, as c^2 = 1 - s^2 does for the cosine and the sine of an angle."""

    atom: str
    power: int
    value: Scalar

    def applied(self, p: Polynomial) -> Polynomial:
        """A polynomial in which no higher power is left."""
        return Polynomial(p.rows, p.columns, {word: self._in_scalar(scalar) for word, scalar in p.terms.items()})

    def _in_scalar(self, scalar: Scalar) -> Scalar:
        total = scalars.ZERO
        for monomial, value in scalar.terms.items():
            own = dict(monomial).get(Atom(self.atom), Fraction(0))
            times = max(int(own) // self.power, 0)
            rest = tuple((atom, power) for atom, power in monomial if atom != self.atom)
            left = own - times * self.power
            kept = Scalar({tuple(sorted([*rest, *([(Atom(self.atom), left)] if left else [])])): value})
            total = total + kept * self.value.power(Fraction(times))
        return total
