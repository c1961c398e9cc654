"""Words of the generated catalogue: departments, what they sell and how it is described."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leaf:
    """A category leaf: its path below the department, its query, and what is sold there."""

    path: str
    query: str
    nouns: tuple[str, ...]


@dataclass(frozen=True)
class Department:
    category: str
    title: str
    leaves: tuple[Leaf, ...]
    attributes: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Option names with the values that products choose from."""
    price: float
    """Median price in dollars."""


def _leaves(text: str) -> tuple[Leaf, ...]:
    rows = (line.split("|") for line in text.strip().splitlines())
    return tuple(
        Leaf(path.strip(), query.strip(), tuple(noun.strip() for noun in nouns.split(",")))
        for path, query, nouns in rows
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


_COLOURS = _words("Black, Navy Blue, Ivory, Dark Green, Rust/Brown, Purple, Coral, Silver")
_SIZES = _words("Small, Medium, Large, X-Large, 3X-Large")

DEPARTMENTS = (
    Department(
        "beauty",
        "Beauty & Personal Care",
        _leaves("""
            Skin Care › Moisturizers  | face moisturizers   | face cream, night balm
            Skin Care › Cleansers     | face cleansers      | foaming cleanser, clay mask
            Hair Care › Shampoo       | shampoo             | hair shampoo, scalp tonic
            Hair Care › Styling       | hair styling        | curl gel, hair wax
            Makeup › Lips             | lip makeup          | lip balm, lip tint
        """),
        _words(
            "cruelty free, sulfate free, paraben free, argan oil, tea tree, long lasting, "
            "sensitive skin, fragrance free, vitamin c, travel size"
        ),
        (
            ("scent", _words("Lavender, Coconut, Unscented, Green Tea/Mint, Vanilla, Citrus")),
            ("size", _words("2 Ounce, 4 Ounce, 8 Ounce, 16 Ounce")),
        ),
        18.0,
    ),
    Department(
        "fashion",
        "Clothing, Shoes & Jewelry",
        _leaves("""
            Women › Dresses    | women's dresses    | wrap dress, maxi dress
            Women › Sweaters   | women's sweaters   | knit cardigan, turtleneck sweater
            Men › Shirts       | men's shirts       | polo shirt, flannel shirt
            Men › Shoes        | men's shoes        | canvas sneaker, hiking boot
            Women › Handbags   | women's handbags   | tote bag, shoulder purse
        """),
        _words(
            "machine wash, slim fit, long sleeve, elastic waist, polyester spandex, "
            "classic fit, arch support, quick drying, rubber sole, day comfort"
        ),
        (("color", _COLOURS), ("size", _SIZES)),
        29.0,
    ),
    Department(
        "electronics",
        "Electronics",
        _leaves("""
            Headphones › Over-Ear       | headphones         | wireless headset, studio headphones
            Computers › Keyboards       | keyboards          | mechanical keyboard, number pad
            Accessories › Chargers      | chargers           | wall charger, charging dock
            Home Audio › Speakers       | speakers           | portable speaker, sound bar
            Camera › Tripods            | tripods            | camera tripod, phone stand
        """),
        _words(
            "fast charging, noise cancelling, water resistant, easy install, plug play, "
            "high speed, hands free, carbon fiber, usb port, stereo sound"
        ),
        (("color", _COLOURS), ("style", _words("Single, 2 Pack, With Case, Bundle"))),
        37.0,
    ),
    Department(
        "garden",
        "Home & Kitchen",
        _leaves("""
            Furniture › Tables      | side tables       | console table, coffee table
            Bedding › Blankets      | blankets          | throw blanket, quilt set
            Lighting › Lamps        | table lamps       | desk lamp, night light
            Decor › Rugs            | area rugs         | area rug, door mat
            Kitchen › Storage       | kitchen storage   | spice rack, bread box
        """),
        _words(
            "easy clean, solid wood, machine washable, space saving, easy assemble, "
            "super soft, heavy duty, mid century, eco friendly, non slip"
        ),
        (("color", _COLOURS), ("size", _words("Twin, Queen, 3 Ft x 5 Ft, 5 Ft x 8 Ft"))),
        46.0,
    ),
    Department(
        "grocery",
        "Grocery & Gourmet Food",
        _leaves("""
            Snack Foods › Chips     | chips             | potato chips, lentil crisps
            Snack Foods › Bars      | snack bars        | granola bar, protein bar
            Beverages › Tea         | tea               | herbal tea, chai blend
            Pantry › Spreads        | spreads           | nut butter, fruit jam
            Breakfast › Cereal      | cereal            | oat cereal, rice puffs
        """),
        _words(
            "gluten free, high protein, low sodium, keto friendly, non gmo, "
            "sugar free, plant based, dairy free, certified organic, low calorie"
        ),
        (
            ("flavor name", _words("Sea Salt, Vanilla Chai, Peanut, Cinnamon/Apple, Honey, Cocoa")),
            ("size", _words("6 Count, 12 Count, 24 Count, 1 Pound")),
        ),
        16.0,
    ),
)

STYLES = _words("Premium, Classic, Compact, Deluxe, Everyday, Original")
TAILS = (
    ("Gift for Women", ("gift", "women")),
    ("Great for Travel", ("travel",)),
    ("for Home and Office", ("home", "office")),
    ("Family Choice", ("family", "choice")),
)
BRAND_STARTS = _words("Bel, Cor, Dal, Fen, Gri, Hal, Jor, Kel, Lum, Mar, Nor, Pel, Quin, Ros, Tav")
BRAND_ENDS = _words("ado, alia, este, ino, ovia, uma, yra, ander, ick, omo")

INSTRUCTIONS = (
    "i am looking for a {noun} that is {attributes}, in {options}",
    "i need a {noun} which is {attributes}, and choose {options}",
    "find me a {attributes} {noun} in {options}",
    "i want to buy a {noun}, {attributes}, {options}",
)
