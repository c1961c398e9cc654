"""What rooms hold: kinds of receptacles and objects, how common they are, what may lie where.

Shares are per cent of the official games of a room; ranges are the fewest and the most receptacles
of a kind that a room with that kind has. Names are spelled as in the official files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Furniture:
    """A kind of receptacle in a kind of room."""

    name: str
    share: int
    least: int
    most: int


@dataclass(frozen=True)
class Room:
    """A kind of room."""

    name: str
    first_scene: int
    """Its scenes have this number and the 29 after it."""
    core: tuple[tuple[str, ...], ...]
    """Receptacles without which its tasks cannot be done: one of each group."""
    furniture: tuple[Furniture, ...]
    objects: Mapping[str, int]
    """Kinds of objects that can be carried, with their shares."""
    lamp: int
    """The share of games with a lamp."""


def _furniture(text: str) -> Iterator[Furniture]:
    for entry in text.split():
        name, share, number = entry.split(":")
        least, most = number.split("-")
        yield Furniture(name, int(share), int(least), int(most))


def _shares(text: str) -> Mapping[str, int]:
    entries = (entry.split(":") for entry in text.split())
    return MappingProxyType({name: int(share) for name, share in entries})


def _room(name: str, first: int, core: str, furniture: str, objects: str, lamp: int = 0) -> Room:
    groups = tuple(tuple(group.split("/")) for group in core.split())
    return Room(name, first, groups, tuple(_furniture(furniture)), _shares(objects), lamp)


LAMP = "DeskLamp"
LAMP_STANDS = MappingProxyType(
    {"SideTable": 278, "Desk": 230, "Dresser": 143, "Shelf": 89, "CoffeeTable": 11}
)
"""Where lamps stand, with the number of official games."""

ROOMS: Mapping[str, Room] = MappingProxyType(
    {
        "kitchen": _room(
            "kitchen",
            1,
            "CounterTop SinkBasin Microwave Fridge",
            """Toaster:100:1-1 StoveBurner:100:4-6 SinkBasin:100:1-1 Microwave:100:1-1
            GarbageCan:100:1-1 Fridge:100:1-1 CounterTop:100:1-4 CoffeeMachine:100:1-1
            Cabinet:100:2-27 Drawer:97:1-27 DiningTable:54:1-3 Shelf:22:3-3 SideTable:10:1-1
            Safe:4:1-1""",
            """SaltShaker:100 PepperShaker:100 Bread:100 Bowl:100 Pan:100 Pot:100 Cup:100
            Spatula:100 Tomato:100 Apple:99 SoapBottle:99 Egg:99 Potato:99 DishSponge:99 Spoon:99
            Mug:98 Fork:98 Knife:98 Lettuce:98 Plate:97 ButterKnife:95 Kettle:49 WineBottle:40
            Ladle:34 Glassbottle:27 Statue:19 Vase:19 CellPhone:15 CreditCard:13 Book:11 Pencil:7
            SprayBottle:6 Pen:6""",
        ),
        "living room": _room(
            "living room",
            201,
            "Sofa/ArmChair CoffeeTable/DiningTable SideTable/Dresser/Shelf Drawer/Cabinet",
            """Sofa:100:1-2 GarbageCan:100:1-1 ArmChair:94:1-3 CoffeeTable:79:1-2 SideTable:79:1-5
            Drawer:79:1-21 DiningTable:46:1-2 TVStand:42:1-2 Shelf:42:1-14 Dresser:37:1-2
            Cabinet:17:1-8 Ottoman:14:1-1 Safe:7:1-1 Desk:3:1-1""",
            """CreditCard:100 Laptop:100 Pillow:100 RemoteControl:98 Statue:96 KeyChain:92 Box:86
            Newspaper:63 Watch:51 Vase:50 TissueBox:35 Plate:34 Book:26 CellPhone:23 Pen:19
            Pencil:16 Bowl:11 Candle:9 WateringCan:9""",
            lamp=25,
        ),
        "bedroom": _room(
            "bedroom",
            301,
            "Bed Desk/SideTable/Dresser/Shelf Drawer",
            """GarbageCan:100:1-1 Bed:100:1-2 Drawer:96:2-17 Desk:71:1-2 Shelf:69:1-14
            SideTable:63:1-2 Dresser:45:1-2 LaundryHamper:30:1-1 Safe:20:1-1 ArmChair:18:1-3
            Cabinet:15:1-4 DiningTable:12:1-1 CounterTop:3:1-1""",
            """CellPhone:100 CreditCard:100 Pillow:100 Laptop:100 Pen:100 Book:100 Pencil:100
            AlarmClock:100 KeyChain:98 CD:93 Mug:52 Bowl:48 Statue:14 TissueBox:13
            RemoteControl:12 Box:8 Watch:7 Vase:6""",
            lamp=72,
        ),
        "bathroom": _room(
            "bathroom",
            401,
            "Toilet SinkBasin CounterTop/Cabinet/Drawer/Shelf GarbageCan",
            """TowelHolder:100:1-2 ToiletPaperHanger:100:1-1 Toilet:100:1-1 SinkBasin:100:1-2
            HandTowelHolder:100:1-4 GarbageCan:100:1-1 CounterTop:85:1-2 BathtubBasin:69:1-1
            Drawer:55:1-8 Cabinet:49:2-9 Shelf:25:1-4 Dresser:8:1-1 SideTable:8:1-1 Cart:7:1-1""",
            """SprayBottle:100 HandTowel:100 Towel:100 Cloth:100 ToiletPaper:99 Candle:97
            SoapBar:97 SoapBottle:96 TissueBox:24 DishSponge:22""",
        ),
    }
)

_MAY_HOLD = """
ArmChair: Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
BathtubBasin: Cloth DishSponge HandTowel SoapBar
Bed: Book CellPhone Laptop Pillow
Cabinet: Book Bowl Box Candle CD Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug
  Newspaper Pan PepperShaker Plate Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox
  ToiletPaper Vase WateringCan WineBottle
Cart: Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
CoffeeMachine: Mug
CoffeeTable: Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate
  RemoteControl Statue TissueBox Vase Watch WateringCan
CounterTop: AlarmClock Apple Book Bowl Bread ButterKnife Candle CD CellPhone Cloth CreditCard Cup
  DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen
  Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon
  SprayBottle Statue TissueBox ToiletPaper Tomato Vase WineBottle
Desk: AlarmClock Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil
  RemoteControl Statue TissueBox Vase Watch WateringCan
DiningTable: AlarmClock Apple Book Bowl Box Bread ButterKnife Candle CD CellPhone Cloth CreditCard
  Cup DishSponge Egg Fork Glassbottle Kettle KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan
  Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula Spoon
  SprayBottle Statue TissueBox Tomato Vase Watch WateringCan WineBottle
Drawer: Book ButterKnife Candle CD CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain
  Knife Ladle Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle
  Spatula Spoon SprayBottle TissueBox ToiletPaper Watch WateringCan
Dresser: AlarmClock Book Bowl Box Candle CD CellPhone Cloth CreditCard KeyChain Laptop Mug
  Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TissueBox ToiletPaper Vase Watch
  WateringCan
Fridge: Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
GarbageCan: Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato
  SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Tomato WineBottle
HandTowelHolder: HandTowel
LaundryHamper: Cloth
Microwave: Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato
Ottoman: Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
Safe: CD CellPhone CreditCard KeyChain Statue Vase Watch
Shelf: AlarmClock Book Bowl Box Candle CD CellPhone Cloth CreditCard Cup DishSponge Glassbottle
  HandTowel Kettle KeyChain Mug Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl
  SaltShaker SoapBar SoapBottle SprayBottle Statue TissueBox ToiletPaper Vase Watch WateringCan
  WineBottle
SideTable: AlarmClock Apple Book Bowl Box Bread ButterKnife Candle CD CellPhone Cloth CreditCard
  Cup DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan Pen
  Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon
  SprayBottle Statue TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle
SinkBasin: Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife
  Ladle Lettuce Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato
Sofa: Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
StoveBurner: Kettle Pan Pot
TVStand: TissueBox
Toaster:
Toilet: Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
ToiletPaperHanger: ToiletPaper
TowelHolder: Towel
"""


def _lists(text: str) -> Mapping[str, frozenset[str]]:
    lines = text.strip().replace("\n  ", " ").split("\n")
    rows = (line.split(":") for line in lines)
    return MappingProxyType({name: frozenset(things.split()) for name, things in rows})


MAY_HOLD = _lists(_MAY_HOLD)
"""Receptacle -> the kinds of objects that may lie in it."""
OPENABLE = frozenset("Cabinet Drawer Fridge Microwave Safe".split())
PROPERTIES = _lists(
    """
cleanable: Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan
  Plate Pot Potato SoapBar Spatula Spoon Tomato
heatable: Apple Bread Cup Egg Mug Plate Potato Tomato
coolable: Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
sliceable: Apple Bread Egg Lettuce Potato Tomato
toggleable: DeskLamp
isReceptacleObject: Bowl Box Cup Mug Pan Plate Pot
"""
)
"""Predicate -> the kinds of objects of which it is true."""
