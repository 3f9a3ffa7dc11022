"""The site: it follows the evidence, nothing on it is unescaped, every link leads somewhere, and it stays small."""

from __future__ import annotations

import json
import re
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pages_site import CHECKED, catalogue, pages, record, record_json, site

from attnproof.catalogue import load_catalogue
from attnproof.checking import Settings
from attnproof.pages import snippets
from attnproof.pages.record import from_json
from attnproof.pages.site import MARK, Site, SiteError, write
from attnproof.verification import run

KILO = 1000
HTML = [name for name in pages() if name.endswith(".html")]


class Page(HTMLParser):
    """What matters of a page: ids, links, what it loads, headings, and the text of each element with a class."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.headings: list[int] = []
        self.verdicts: Counter[str] = Counter()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if tag in ("script", "img", "link") and (found.get("src") or found.get("href")):
            self.loads.append(str(found.get("src") or found.get("href")))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "verdict" in str(found.get("class", "")).split():
            self.verdicts[str(found["class"])] += 1


@cache
def parsed(name: str) -> Page:
    return Page(pages()[name])


def text_of(name: str, made: Site) -> str:
    return made.text(f"systems/{name}.html")


def planted(change: dict[str, Any]) -> Site:
    """The site with another record of one identity."""
    changed = deepcopy(record_json())
    written = next(one for one in changed["identities"] if one["id"] == "gated_deltanet.gamma_rewrite")
    written.update(change)
    return replace(site(), record=from_json(changed))


REFUTED = {
    "evidence": [{"rung": "exact", "verdict": "refuted", "sizes": [], "seconds": 0.1, "message": "the sides differ"}],
    "counterexample": {
        "sizes": {"n": 2, "d_k": 1, "d_v": 1},
        "inputs": {"gamma": [["1"], ["1/2"]], "K": [["1"], ["1"]]},
        "compared": "output",
        "left": [["1"], ["1"]],
        "right": [["1"], ["1/2"]],
        "gap": "(1 - gamma_2)*k_1",
        "entry": [2, 1],
    },
}


def test_a_page_turns_when_its_evidence_does():
    before, after = text_of("gated_deltanet", site()), text_of("gated_deltanet", planted(REFUTED))
    assert "Everything is as expected" in before
    assert "Everything is as expected" not in after
    assert "Not as expected: 1 of 12" in after
    assert Page(before).verdicts["verdict refuted unexpected"] == 0
    assert Page(after).verdicts["verdict refuted unexpected"] == 1
    assert "gamma_2 = 1/2, everything else 1" in after
    assert not planted(REFUTED).ok


def test_the_claims_and_the_index_turn_with_it():
    before, after = (made.text("ledger.html") for made in (site(), planted(REFUTED)))
    claim = re.compile(r'id="S0-57" data-verdict="([\w ]+)"')
    assert claim.findall(before) == ["holds"]
    assert claim.findall(after) == ["unknown"]
    assert "should hold, but its verdict is &#39;refuted&#39;" in after
    assert "1 not as expected" in planted(REFUTED).text("index.html")


def test_a_record_of_a_reduction_turns_the_map():
    changed = deepcopy(record_json())
    next(one for one in changed["identities"] if one["id"] == "family.gla_is_decay").update(REFUTED)
    drawn = replace(site(), record=from_json(changed)).text("family.html")
    assert drawn.count('class="line unverified"') == 1
    assert pages()["family.html"].count('class="line unverified"') == 0


def test_what_a_record_says_nothing_about_is_not_checked():
    found = parsed("systems/deltanet.html")
    statements = catalogue().derivations["deltanet"].statements
    assert found.verdicts["verdict not-checked unexpected"] == len(statements)
    assert "aren&#39;t in this record of evidence" in pages()["index.html"]


def test_a_refuted_formula_is_beside_its_correction_and_its_numbers():
    text = pages()["systems/gated_deltanet.html"]
    refuted = text[text.index('id="refuted"') :]
    assert "gamma_2 = 1/2, everything else 1" in refuted
    assert "gated_deltanet.printed_recurrence_is_shifted_matrix</a>" in refuted
    assert refuted.index("Refuted by") < refuted.index("Correct is")


def test_a_systems_page_has_all_that_is_known():
    text = pages()["systems/gated_deltanet.html"]
    for heading in ("forms", "symbols", "identities", "refuted", "backward-passes", "costs", "implementations"):
        assert f'<h2 id="{heading}">' in text
    for heading in ("oracle", "in-the-family", "sources"):
        assert f'<h2 id="{heading}">' in text
    assert "1 &lt;= " not in text
    for shown in ("every n", "n &lt;= 6", "needed, since the reparametrisation divides by gamma", "arxiv.org/abs/2412"):
        assert shown in text
    assert "division by zero" in text, "the input that shows an assumption to be needed"


@pytest.mark.parametrize("name", HTML)
def test_every_link_leads_somewhere(name: str):
    found = parsed(name)
    for link in found.links + found.loads:
        parts = urlsplit(link)
        if parts.scheme in ("https", "http", "data"):
            assert link in found.links or parts.scheme == "data", f"{name} loads {link} from the network"
            continue
        target = resolved(name, parts.path) if parts.path else name
        assert target in pages(), f"{name} links to {link}"
        if parts.fragment:
            assert unquote(parts.fragment) in parsed(target).ids, f"{name} links to {link}"


def resolved(page: str, path: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / unquote(path)).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


@pytest.mark.parametrize("name", HTML)
def test_ids_are_unique_and_headings_in_order(name: str):
    found = parsed(name)
    assert [one for one, count in Counter(found.ids).items() if count > 1] == []
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(found.headings, found.headings[1:], strict=False))


@pytest.mark.parametrize("name", HTML)
def test_pages_are_small(name: str):
    size = len(pages()[name].encode())
    assert size < 1000 * KILO
    assert name != "index.html" or size < 300 * KILO


def test_every_claim_and_statement_has_a_place_of_its_own():
    assert {claim.id for claim in catalogue().claims()} <= set(parsed("ledger.html").ids)
    for entry in catalogue().entries():
        assert entry.statement.name in parsed(f"systems/{entry.derivation.name}.html").ids


def test_the_index_of_the_search_is_a_script_with_systems_symbols_statements_and_claims():
    text = pages()["static/search_index.js"]
    items = json.loads(text.removeprefix("window.ATTNPROOF_INDEX = ").rstrip().removesuffix(";"))
    kinds = Counter(item["kind"] for item in items)
    assert kinds["system"] == len(catalogue().derivations)
    assert kinds["claim"] == len(catalogue().claims())
    assert kinds["identity"] + kinds["fact"] + kinds["backward"] == len(catalogue().entries())
    assert any(item["kind"] == "symbol" and item["name"] == "gamma" for item in items)
    for item in items:
        path, _, fragment = item["address"].partition("#")
        assert not fragment or fragment in parsed(path).ids


HOSTILE = "</code><script>alert(1)</script>"
UNTRUSTED = """
hostile = Derivation(
    "hostile", title="<img src=x onerror=alert(1)>", summary="a & b {text}", forms={{"{hostile}": Closed(Q @ K.T)}},
    identities=[
        Identity("{hostile}", Closed(Q @ K.T), Closed((Q @ K.T).hadamard(M)), says="{hostile}", source="{hostile}"),
    ],
    facts=[Fact("fact {hostile}", Computed(lambda: Finding(True, "{hostile}")), says="{hostile}")],
    sources=[Source("{hostile}", "{hostile}", "javascript:alert(1)")],
)
words = Document("words", title="{hostile}", claims=[
    Claim("X-1", "{hostile}", "{hostile}", "empirical", would_decide="{hostile}", note="{hostile}"),
])
"""


def test_no_text_of_a_users_module_reaches_a_page_unescaped(write):
    folder = write("hostile", UNTRUSTED.format(hostile=HOSTILE, text="{{ 7 * 6 }}")).parent
    found = load_catalogue([folder])
    assert not found.broken
    settings = Settings((str(folder),), rungs=("typed", "exact"))
    checked = run(found, found.select(["hostile"]), settings)
    hostile = Site(found, from_json(checked.as_json()), {})
    top = ("index.html", "ledger.html", "family.html", "costs.html", "notation.html")
    made = {name: hostile.text(name) for name in (*top, "systems/hostile.html", "static/search_index.js")}
    trusted = {name: Counter(tag for tag, _ in parsed(name).elements) for name in HTML}
    for name in top:
        elements = Page(made[name]).elements
        assert Counter(tag for tag, _ in elements)["script"] == trusted[name]["script"]
    own = Page(made["systems/hostile.html"])
    assert "{{ 7 * 6 }}" in made["systems/hostile.html"]
    for text in (own, Page(made["index.html"]), Page(made["ledger.html"])):
        assert not any(tag == "img" or "onerror" in attributes for tag, attributes in text.elements)
        assert not any(link.startswith("javascript:") for link in text.links)
    assert sum(tag == "script" for tag, _ in own.elements) == 3
    assert "<script>alert" not in made["systems/hostile.html"]
    assert "<script" not in made["static/search_index.js"]


def test_no_page_names_a_folder_of_this_machine():
    for name, text in pages().items():
        assert str(Path(__file__).parent.parent) not in text, name


def test_a_site_is_replaced_whole_and_nothing_else_is(tmp_path: Path):
    folder = tmp_path / "site"
    assert write(iter([("a.html", "old"), ("b/c.html", "old")]), folder) == 2
    assert write(iter([("a.html", "new")]), folder) == 1
    assert [path.name for path in sorted(folder.iterdir())] == [MARK, "a.html"]
    assert (folder / "a.html").read_text() == "new"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(SiteError, match=r"holds something that isn't a site.*--out"):
        write(iter([("a.html", "")]), tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_site_that_breaks_off_leaves_the_old_one(tmp_path: Path):
    def broken():
        yield "a.html", "new"
        raise ValueError("a page can't be made")

    write(iter([("a.html", "old")]), tmp_path / "site")
    with pytest.raises(ValueError, match="can't be made"):
        write(broken(), tmp_path / "site")
    assert (tmp_path / "site" / "a.html").read_text() == "old"


@pytest.mark.parametrize(
    "change", [{"expected": "refuted"}, {"expected": "refuted"} | REFUTED], ids=["holds", "refuted"]
)
def test_a_record_that_expects_something_else_than_the_statement_is_not_as_expected(change: dict[str, Any]):
    unexpected = planted(change).systems["gated_deltanet"].unexpected
    assert [one.id for one in unexpected] == ["gated_deltanet.gamma_rewrite"]


@pytest.mark.parametrize("name", ["gated_deltanet", "gla", "comba", "rwkv6"])
def test_the_snippet_of_an_oracle_runs_as_it_is(name: str):
    made: dict[str, Any] = {}
    exec(snippets.oracle(catalogue().derivations[name]), made)
    rows = made["exact"].output.shape[0]
    assert made["tolerances"][0].shape == (rows,)
    assert (made["tolerances"][0] > 0).all()
    assert (made["tolerances"][0] < abs(made["exact"].output).max(axis=-1) * 1e-3).all()


def test_a_system_has_its_check_its_oracle_and_its_code():
    text = pages()["systems/gated_deltanet.html"]
    assert "attnproof.check_kernel(my_kernel, &#34;gated_deltanet&#34;)" in text
    assert "def gated_deltanet_recurrence(" in text
    assert [target for target in ("numpy", "torch", "jax") if f"<summary>{target}</summary>" not in text] == []


def test_the_fixture_is_about_something():
    assert all(record().reports[entry.id].ok for entry in catalogue().select(CHECKED))
