"""Costs in words: polynomials as they are written by hand, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sympy import Expr, Rational, Symbol

from derivations.language.symbols import n
from numerics.costs.best_chunk import BestChunk
from numerics.costs.comparison import Crossover, Setting
from numerics.costs.system import Costs, FormCosts
from numerics.evaluate import CHUNK

NOT_COUNTED = "not counted"


def polynomial_text(cost: Expr) -> str:
    """2 n d_k d_v + n C d_k - n d_v / C: the terms with most factors first, and in each n and C in front."""
    terms = [(_powers(monomial), factor) for monomial, factor in cost.as_coefficients_dict().items() if factor]
    terms.sort(key=lambda term: _place(term[0]))
    signed = [f"{'-' if factor < 0 else '+'} {_term(powers, abs(factor))}" for powers, factor in terms]
    text = " ".join(signed) or "0"
    return f"-{text[2:]}" if text.startswith("- ") else text.removeprefix("+ ")


def _powers(monomial: Expr) -> dict[Symbol, int]:
    found = {x: int(power) for x, power in monomial.as_powers_dict().items() if isinstance(x, Symbol)}
    return dict(sorted(found.items(), key=lambda item: _name_order(item[0])))


def _name_order(x: Symbol) -> tuple[bool, bool, str]:
    return x != n, x != CHUNK, str(x)


def _place(powers: Mapping[Symbol, int]) -> tuple[object, ...]:
    factors = sum(power for power in powers.values() if power > 0)
    return -factors, *((_name_order(x), -power) for x, power in powers.items())


def _term(powers: Mapping[Symbol, int], factor: Rational) -> str:
    above = [_power(x, power) for x, power in powers.items() if power > 0]
    below = [_power(x, -power) for x, power in powers.items() if power < 0]
    if factor.p != 1 or not above:
        above.insert(0, str(factor.p))
    if factor.q != 1:
        below.insert(0, str(factor.q))
    divisor = f"({' '.join(below)})" if len(below) > 1 else "".join(below)
    return f"{' '.join(above)} / {divisor}" if below else " ".join(above)


def _power(x: Symbol, power: int) -> str:
    return str(x) if power == 1 else f"{x}^{power}"


def count_text(counts: Costs, quantity: str, setting: Setting) -> str:
    """A count; of several polynomials the one that is the greatest at these sizes."""
    if quantity in counts.missing:
        return NOT_COUNTED
    polynomials = counts.found[quantity]
    text = polynomial_text(setting.greatest(polynomials))
    notes = [f"greatest of {len(polynomials)}"] if len(polynomials) > 1 else []
    notes += [f"C = {setting.chunk}"] if quantity in counts.only_at_chunk else []
    return f"{text} ({', '.join(notes)})" if notes else text


def number_text(total: Expr | Sequence[Expr] | None, setting: Setting) -> str:
    """A count at these sizes: 33,554,432."""
    if total is None:
        return NOT_COUNTED
    return f"{round(setting.number([total] if isinstance(total, Expr) else total)):,}"


def crossover_text(crossover: Crossover) -> str:
    """Which form takes less, and from which length on: recurrence from n = 129."""
    if crossover.cheaper is None:
        return "equal"
    return f"{crossover.cheaper} {'always' if crossover.length == 1 else f'from n = {crossover.length}'}"


def best_chunk_lines(costs: Sequence[FormCosts], best: Mapping[str, BestChunk], setting: Setting) -> Iterator[str]:
    """The best size of a block of each form that has blocks."""
    for form in costs:
        if form.has_blocks and form.name not in best:
            yield f"{form.name}: {NOT_COUNTED}, since its operations aren't known as a polynomial in C"
        elif form.has_blocks:
            found = best[form.name]
            here = setting.number([form.sequence.weighted(setting.ratio) or Rational(0)])
            yield (
                f"{form.name}: C = {float(found.exact):.1f}, of the powers of two C = {found.power_of_two}; "
                f"C = {setting.chunk} takes {float(here) / float(found.time_there):.2f} times as long"
            )


def missing_lines(costs: Sequence[FormCosts]) -> Iterator[str]:
    """What isn't counted, and why."""
    for form in costs:
        for counts, of in ((form.sequence, ""), (form.token, " of one more token")):
            reasons: dict[str, list[str]] = {}
            for quantity, reason in counts.missing.items():
                reasons.setdefault(reason, []).append(quantity)
            for reason, quantities in reasons.items():
                yield f"{NOT_COUNTED}: {form.name}, {', '.join(quantities)}{of}: {reason}"
