"""The site in a real browser: it loads from files, finds, filters and links, fits a phone, and is accessible.

The browser is the distribution's Chromium (Debian: apt-get install chromium). Where there is none, or nothing to drive
it with, these tests are skipped with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages_site import pages

from attnproof.pages.site import write

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HTML = [name for name in pages() if name.endswith(".html")]
LOOKED_AT = [
    ("index.html", "light"),
    ("index.html", "dark"),
    ("family.html", "dark"),
    ("systems/cope.html", "dark"),
    ("systems/gated_deltanet.html", "light"),
    ("ledger.html", "dark"),
    ("notation.html", "light"),
    ("api.html", "light"),
]
"""Pages of each kind, most in one scheme, since each takes seconds: dark ones on a phone."""
PHONE = {"width": 380, "height": 760}
EMPTY_MATHEMATICS = """
[...document.querySelectorAll("math")].slice(0, 50).filter(formula => {
  const box = formula.getBoundingClientRect();
  return box.width * box.height === 0 && !formula.closest("details");
}).map(formula => formula.outerHTML)
"""
"""Formulas that take no room; what is folded away needs none."""
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright isn't installed: pip install '.[browser]'")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with driver.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages") / "site"
    write(iter(pages().items()), made)
    return made


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """opened("index.html"): the page, with what went wrong while it loaded as `.faults`."""
    contexts = []

    def open_(name: str, **options: Any) -> Any:
        context = browser.new_context(viewport=options.pop("viewport", {"width": 1100, "height": 900}), **options)
        contexts.append(context)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda message: message.type in ("error", "warning") and page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("requestfailed", lambda request: page.faults.append(request.url))
        page.goto(
            (folder / name.partition("?")[0]).as_uri() + ("?" + query if (query := name.partition("?")[2]) else "")
        )
        return page

    yield open_
    for context in contexts:
        context.close()


def test_every_page_loads_without_errors_and_fits_a_phone(opened: Any, folder: Path):
    page = opened("index.html", viewport=PHONE)
    for name in HTML:
        page.goto((folder / name).as_uri())
        widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1], f"{name} scrolls sideways: {widths[0]} px"
        empty = page.evaluate(EMPTY_MATHEMATICS)
        assert empty == [], f"{name}: mathematics without a size"
        assert page.faults == [], name


def test_a_page_that_scrolls_sideways_would_be_found(opened: Any):
    page = opened("index.html", viewport=PHONE)
    page.evaluate("document.querySelector('h1').style.width = '500px'")
    assert page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_a_missing_resource_and_an_error_would_be_found(opened: Any, folder: Path):
    page = opened("index.html")
    page.evaluate("document.body.append(Object.assign(document.createElement('img'), {src: 'nothing.png'}))")
    page.evaluate("setTimeout(() => undefinedFunction())")
    page.wait_for_timeout(300)
    assert any("nothing.png" in fault or "ERR_FILE_NOT_FOUND" in fault for fault in page.faults)
    assert any("undefinedFunction" in fault for fault in page.faults)


@pytest.mark.parametrize(
    ("words", "first"),
    [("gated", "Gated DeltaNet"), ("S0-58", "S0-58"), ("gamma", "gamma"), ("printed recurrence", "gated_deltanet.")],
)
def test_search_finds(words: str, first: str, opened: Any):
    page = opened("systems/gla.html")
    page.fill("#search-words", words)
    results = page.locator("#search-results a")
    assert results.count() > 0
    texts = [results.nth(number).inner_text() for number in range(min(results.count(), 10))]
    assert any(text.startswith(first) for text in texts), texts
    before = page.url
    results.first.click()
    page.wait_for_url(lambda url: url != before)
    assert page.locator("h1").count() == 1
    assert page.faults == []


def test_search_says_that_nothing_is_found(opened: Any):
    page = opened("index.html")
    page.fill("#search-words", "no such words anywhere")
    assert page.locator("#search-results").inner_text() == "Nothing is found."
    assert page.locator("#search-results a").count() == 0


def shown(page: Any) -> int:
    return page.locator(".claim:visible").count()


def test_the_ledgers_filters_work(opened: Any):
    page = opened("ledger.html")
    everything = shown(page)
    assert everything == page.locator(".claim").count()
    page.select_option("[name=verdict]", "empirical")
    empirical = shown(page)
    assert 0 < empirical < everything
    assert page.locator(".claim:visible .verdict:not(.empirical)").count() == 0
    page.select_option("[name=document]", "document_001")
    assert 0 < shown(page) < empirical
    assert int(page.locator("#shown-claims").inner_text()) == shown(page)
    page.fill("[name=words]", "BERT")
    assert shown(page) == 1


def test_a_link_to_the_ledger_brings_its_filter(opened: Any):
    page = opened("ledger.html?verdict=empirical")
    assert 0 < shown(page) < page.locator(".claim").count()
    assert page.input_value("[name=verdict]") == "empirical"


def test_the_map_shows_conditions_by_pointer_and_keyboard(opened: Any):
    page = opened("family.html")
    line = page.locator('.line[data-general="kda"][data-special="gated_deltanet"]')
    assert page.locator(".condition.chosen").count() == 0
    line.dispatch_event("pointerenter")
    assert page.locator(".condition.chosen").text_content() == "one gate for all channels"
    page.locator(".line").first.focus()
    page.keyboard.press("Tab")
    second = page.locator(".line").nth(1)
    assert page.locator("#condition").inner_text() == second.get_attribute("aria-label")


def test_the_maps_links_lead_somewhere(opened: Any):
    page = opened("family.html")
    links = page.locator(".map a")
    assert links.count() > 20
    links.first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/systems/*.html")
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize(("name", "scheme"), LOOKED_AT)
def test_axe_finds_no_serious_fault(name: str, scheme: str, opened: Any):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python isn't installed")
    page = opened(name, color_scheme=scheme, viewport=PHONE if scheme == "dark" else {"width": 1100, "height": 900})
    found = axe.Axe().run(page).response["violations"]
    serious = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in SERIOUS]
    assert serious == []


def test_axe_would_find_a_fault(opened: Any):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python isn't installed")
    page = opened("index.html")
    page.evaluate("document.querySelector('.lead').style.color = '#ddd'")
    assert "color-contrast" in [one["id"] for one in axe.Axe().run(page).response["violations"]]


def test_pages_are_read_without_scripts(opened: Any):
    page = opened("ledger.html", java_script_enabled=False)
    assert page.locator(".claim:visible").count() == page.locator(".claim").count()
    assert page.locator("form:visible").count() == 0


def test_a_page_prints_its_evidence_and_no_menu(opened: Any):
    page = opened("systems/gated_deltanet.html")
    page.emulate_media(media="print")
    assert page.locator("header nav").is_visible() is False
    assert page.locator("details.evidence dl").first.is_visible()
