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
    """No two are alike enough for the reward to take one for the other."""
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Option names with the values that products choose from, as unlike as the attributes."""
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


_COLOURS = _words(
    "Black, Navy Blue, Ivory, Dark Green, Rust/Brown, Purple, Coral, Silver, Rosé, Off-White, "
    "Café au Lait, Heather Grey"
)

DEPARTMENTS = (
    Department(
        "beauty",
        "Beauty & Personal Care",
        _leaves("""
            Skin Care › Moisturizers | face moisturizers | face cream, night balm, body lotion
            Skin Care › Cleansers    | face cleansers    | foaming cleanser, clay mask, sugar scrub
            Hair Care › Shampoo      | shampoo           | hair shampoo, scalp tonic, hair rinse
            Hair Care › Styling      | hair styling      | curl gel, hair wax, styling mousse
            Makeup › Lips            | lip makeup        | lip balm, lip tint, lip gloss
        """),
        _words(
            "cruelty free, sulfate free, paraben free, argan oil, tea tree, long lasting, "
            "sensitive skin, fragrance free, vitamin c, travel size, shea butter, aloe vera, "
            "hyaluronic acid, easy apply, dermatologist tested, non toxic"
        ),
        (
            (
                "scent",
                _words(
                    "Lavender, Coconut, Unscented, Green Tea/Mint, Vanilla, Citrus, Rosé, "
                    "Ylang-Ylang, Honey/Oat"
                ),
            ),
            ("size", _words("2 Oz, 4 Oz, 8 Oz, 16 Oz, 50 mL/Mini, Refill")),
        ),
        18.0,
    ),
    Department(
        "fashion",
        "Clothing, Shoes & Jewelry",
        _leaves("""
            Women › Dresses    | women's dresses    | wrap dress, maxi dress, sun dress
            Women › Sweaters   | women's sweaters   | knit cardigan, turtleneck sweater, wool vest
            Men › Shirts       | men's shirts       | polo shirt, flannel shirt, henley tee
            Men › Shoes        | men's shoes        | canvas sneaker, hiking boot, house slipper
            Women › Handbags   | women's handbags   | tote bag, shoulder purse, clutch wallet
        """),
        _words(
            "machine wash, slim fit, long sleeve, elastic waist, polyester spandex, "
            "classic fit, arch support, quick drying, rubber sole, day comfort, button closure, "
            "moisture wicking, fleece lined, faux leather, tummy control, winter warm"
        ),
        (("color", _COLOURS), ("size", _words("Small, Medium, Large, XL, 3XL, Petite/Short"))),
        29.0,
    ),
    Department(
        "electronics",
        "Electronics",
        _leaves("""
            Headphones › Over-Ear  | headphones | wireless headset, studio headphones, earbuds
            Computers › Keyboards  | keyboards  | mechanical keyboard, number pad, trackball mouse
            Accessories › Chargers | chargers   | wall charger, charging dock, power bank
            Home Audio › Speakers  | speakers   | portable speaker, sound bar, radio receiver
            Camera › Tripods       | tripods    | camera tripod, phone stand, ring light
        """),
        _words(
            "fast charging, noise cancelling, water resistant, easy install, plug play, "
            "high speed, hands free, carbon fiber, usb port, stereo sound, quick release, "
            "voice control, dual band, gold plated, aluminum alloy, motion detection"
        ),
        (
            ("color", _COLOURS),
            ("style", _words("Basic, With Case, Bundle, USB-C/Corded, Clip-On, Édition Pro")),
        ),
        37.0,
    ),
    Department(
        "garden",
        "Home & Kitchen",
        _leaves("""
            Furniture › Tables      | side tables       | console table, coffee table, plant stand
            Bedding › Blankets      | blankets          | throw blanket, quilt set, duvet cover
            Lighting › Lamps        | table lamps       | desk lamp, night light, floor lantern
            Decor › Rugs            | area rugs         | area rug, door mat, hallway runner
            Kitchen › Storage       | kitchen storage   | spice rack, bread box, cookie jar
        """),
        _words(
            "easy clean, solid wood, machine washable, space saving, fully assembled, "
            "super soft, heavy duty, mid century, eco friendly, non slip, faux fur, metal frame, "
            "hand crafted, double sided, high gloss, lead free"
        ),
        (
            ("color", _COLOURS),
            ("size", _words("Twin, Queen, 3x5 Ft, 5x8 Ft, King/Cal King, Round")),
        ),
        46.0,
    ),
    Department(
        "grocery",
        "Grocery & Gourmet Food",
        _leaves("""
            Snack Foods › Chips     | chips             | potato chips, lentil crisps, veggie straws
            Snack Foods › Bars      | snack bars        | granola bar, protein bar, date bites
            Beverages › Tea         | tea               | herbal tea, chai blend, matcha powder
            Pantry › Spreads        | spreads           | nut butter, fruit jam, maple syrup
            Breakfast › Cereal      | cereal            | oat cereal, rice puffs, muesli mix
        """),
        _words(
            "gluten free, high protein, low sodium, keto friendly, non gmo, "
            "sugar free, plant based, dairy free, certified organic, low calorie, soy free, "
            "old fashioned, individually wrapped, simple ingredients, ready eat, zero cholesterol"
        ),
        (
            (
                "flavor name",
                _words(
                    "Sea Salt, Vanilla Chai, Peanut, Cinnamon/Apple, Honey, Cocoa, Crème Brûlée, "
                    "Jalapeño, Lemon/Ginger"
                ),
            ),
            ("size", _words("6 Ct, 12 Ct, 30 Ct, 1 Pound, 8.8 oz, Trial/Mini")),
        ),
        16.0,
    ),
)

SHAPES = (
    "{brand} {style} {noun} {first} {second}, {tail}",
    "{brand} {noun}, {first}, {second}, {tail}",
    "{brand} {first} {noun} - {second} ({pack})",
    "{brand} - {style} {noun} - {first}, {second}",
    "{first} {noun} by {brand}, {second}",
    "{style} {noun} ({first}, {second}) | {brand}",
    "{brand} | {first} {style} {noun} | {second}",
    "{noun} - {first} & {second} - {tail}",
    "{brand} {first} {second} {noun}, {pack}",
    "{pack}: {style} {noun} {first}/{second}, {brand}",
    "{first} {second} {noun} {tail}",
    "{style} {first} {noun} {tail} ({second}) {brand}",
)
"""Titles in word orders and punctuation of real listings."""
STYLES = _words(
    "Premium, Classic, Compact, Deluxe, Everyday, Original, Modern, Signature, Essential, Elegant"
)
TAILS = (
    ("Gift for Women", ("gift", "women")),
    ("Great for Travel", ("travel",)),
    ("for Home and Office", ("home", "office")),
    ("Family Choice", ("family", "choice")),
    ("for Men & Women", ("men", "women")),
    ("Best Value", ("value",)),
    ("New Season", ("season",)),
    ("Holiday Edition", ("holiday", "edition")),
)
PACKS = (
    ("Pack of 1", ("pack",)),
    ("Pack of 2", ("pack",)),
    ("Set of 3", ("set",)),
    ("Value Pack", ("value", "pack")),
)
"""Tails and packs each with their nouns."""
BRAND_STARTS = _words(
    "Bel, Cor, Dal, Fen, Gri, Hal, Jor, Kel, Lum, Mar, Nor, Pel, Quin, Ros, Tav, Vel, Wes, Zan"
)
BRAND_ENDS = _words("ado, alia, este, ino, ovia, uma, yra, ander, ick, omo, wood, berg, well, line")
ACRONYMS = frozenset({"usb", "gmo"})
"""Words that titles write in capitals."""

BULLETS = (
    "{attribute} {noun} for daily use",
    "{attribute}: a {noun} to rely on",
    "{attribute}, as a {noun} should be",
)
DESCRIPTIONS = (
    "",
    "A {noun} by {brand}.",
    "{brand} makes this {noun} with care.",
    "The {noun} that {brand} is known for.",
)
INSTRUCTIONS = (
    "i am looking for a {noun} that is {attributes}, in {options}",
    "i need a {noun} which is {attributes}, and choose {options}",
    "find me a {attributes} {noun} in {options}",
    "i want to buy a {noun}, {attributes}, {options}",
    "please get me a {noun}. it should be {attributes}. i prefer {options}",
)
