"""Orders of a shop and their receipts: what one release after the other does with them is the demo's story.

r1 knows one rate of tax a country. r2 looks up the rate of the state, which few addresses outside the United States
have: these receipts fail. r3 uses the country's rate where there is no state. r4 was made from r2 and fails again, r5
has what r3 has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from itertools import count, cycle
from typing import Any

Address = Mapping[str, str]
RATES = {
    "AU": "10", "DE": "19", "ES": "21", "FR": "20", "IT": "22", "JP": "10", "NL": "21", "SG": "9", "US": "0",
    "US-CA": "7.25", "US-IL": "6.25", "US-NY": "4", "US-TX": "6.25", "US-WA": "6.5",
}  # fmt: skip
"""Percent of tax by country, and by state where that has a rate of its own."""
CENT = Decimal("0.01")


def rate_by_country(address: Address) -> str:
    """Return the rate of the country."""
    return RATES[address["country"]]


def rate_by_state(address: Address) -> str:
    """Return the rate of the state, or of the country where the state has none."""
    state = f"{address['country']}-{address['state']}"
    return RATES.get(state, RATES[address["country"]])


def rate_of_address(address: Address) -> str:
    """Return the rate of the state, or of the country where the address names no state or one without a rate."""
    return rate_by_state(address) if "state" in address else rate_by_country(address)


CODE: Mapping[str, Callable[[Address], str]] = {
    "r1": rate_by_country,
    "r2": rate_by_state,
    "r3": rate_of_address,
    "r4": rate_by_state,
    "r5": rate_of_address,
}
"""What each release runs."""
BREAKING = frozenset(release for release, code in CODE.items() if code is rate_by_state)
FIRST, BROKEN, MENDED = "r1", "r2", "r3"


def receipt(
    release: str | None, number: str, currency: str, address: Address, lines: list[dict[str, Any]]
) -> tuple[str, Decimal]:
    """Return the text of a receipt and its total, as a release writes it."""
    rate = Decimal(CODE.get(release or FIRST, rate_by_country)(address))
    net = sum((Decimal(line["price"]) * line["quantity"] for line in lines), Decimal(0))
    tax = (net * rate / 100).quantize(CENT, ROUND_HALF_UP)
    rows = [f"{line['quantity']:>3} × {line['sku']:<20}{line['price']:>10}" for line in lines]
    rows += [f"{f'tax {rate} %':<26}{tax:>10}", f"{f'total {currency}':<26}{net + tax:>10}"]
    return "\n".join([f"receipt for order {number}", *rows, ""]), net + tax


_CUSTOMERS = (
    ("us", "USD", "en", "Dana Whitfield", "dana@whitfield.example", "12 Alder St", "Albany", "12207", "US", "NY"),
    ("us", "USD", "en", "Luis Ortega", "luis.ortega@mail.example", "840 Mission Ave", "Fresno", "93721", "US", "CA"),
    ("eu", "EUR", "de", "Jana Köhler", "jana@buero-koehler.example", "Lindenweg 4", "Bremen", "28195", "DE", ""),
    ("us", "USD", "en", "Priya Raman", "ap@ramanco.example", "77 Wacker Dr", "Chicago", "60606", "US", "IL"),
    ("apac", "AUD", "en", "Noah Burns", "noah@burns.example", "3 Hobart Ln", "Geelong", "3220", "AU", "VIC"),
    ("us", "USD", "es", "Marta Soto", "marta.soto@mail.example", "519 Elm St", "Austin", "78701", "US", "TX"),
    ("eu", "EUR", "fr", "Élodie Marchand", "e.marchand@atelier.example", "9 rue du Four", "Lyon", "69002", "FR", ""),
    ("us", "USD", "en", "Owen Bright", "owen@brightworks.example", "6 Pine St", "Seattle", "98101", "US", "WA"),
    ("apac", "AUD", "en", "Ruby Nguyen", "ruby@nguyen.example", "21 Swan Rd", "Perth", "6000", "AU", "WA"),
    ("us", "USD", "en", "Hal Jensen", "hal.jensen@mail.example", "301 Lark St", "Albany", "12210", "US", "NY"),
    ("eu", "EUR", "nl", "Sanne de Vries", "sanne@devries.example", "Keizersgracht 8", "Utrecht", "3511", "NL", ""),
    ("us", "USD", "en", "Grace Lin", "grace@lin-and-co.example", "45 Bay St", "San Jose", "95110", "US", "CA"),
    ("apac", "SGD", "en", "Tan Wei", "tan@wei.example", "5 Orchard Link", "Singapore", "237978", "SG", "Singapore"),
    ("eu", "EUR", "es", "Andrés Gil", "andres@gil.example", "Calle Sol 14", "Zaragoza", "50001", "ES", "Aragón"),
    ("us", "USD", "en", "Tom Avery", "tom@avery.example", "90 Cedar Ave", "Dallas", "75201", "US", "TX"),
    ("eu", "EUR", "it", "Chiara Conti", "chiara.conti@mail.example", "Via Roma 22", "Torino", "10121", "IT", ""),
)  # fmt: skip
"""Region, currency, language, name, mail, street, city, postcode, country and state, which some do not have."""
_GOODS = (
    ("MUG-BLUE", "12.50"), ("LAMP-OAK", "89.00"), ("NOTEBOOK-A5", "6.90"), ("POSTER-MOON", "24.00"),
    ("CHAIR-04", "149.00"), ("CANDLE-3", "18.75"), ("TRAY-STEEL", "31.20"),
)  # fmt: skip


def orders() -> Iterator[dict[str, Any]]:
    """Return orders without end, always the same."""
    customers, goods = cycle(_CUSTOMERS), cycle(_GOODS)
    for number in count(10_001):
        region, currency, language, name, email, street, city, postcode, country, state = next(customers)
        address = {"street": street, "city": city, "postcode": postcode, "country": country}
        chosen = [next(goods) for _ in range(number % 3 + 1)]
        yield {
            "number": f"A-{number}",
            "region": region,
            "currency": currency,
            "language": language,
            "customer": {"name": name, "email": email},
            "address": address | ({"state": state} if state else {}),
            "lines": [{"sku": sku, "quantity": number % 4 + 1, "price": price} for sku, price in chosen],
        }
