"""The commonest words of some languages: they say which language a page is in, and are no topics."""

from __future__ import annotations

_TEXTS = {
    "en": (
        "a about all also an and any are as at be been but by can do each for from had has have how if "
        "in into is it its more most no not of on one only or our out over part see so some than that "
        "the their them then there these they this to up was we were what when where which who will with "
        "you your"
    ),
    "de": (
        "aber als am an auch auf aus bei bis das dem den der des die durch ein eine einem einen einer er "
        "es für hat ich ihr im in ist kann man mehr mit nach nicht noch nur oder sich sie sind so um und "
        "uns unter vom von vor war was wenn werden wie wir wird zu zum zur über"
    ),
    "fr": (
        "au aux avec ce ces dans de des du elle en est et il ils je la le les leur mais ne nous on ou "
        "par pas plus pour qu que qui sa se ses son sont sur un une vous"
    ),
    "es": (
        "al como con de del el en entre es esta este ha la las lo los muy más no o para pero por que se "
        "ser si sin sobre son su sus un una y ya"
    ),
}
STOP_WORDS = {language: frozenset(text.split()) for language, text in _TEXTS.items()}
NO_TOPICS = frozenset().union(*STOP_WORDS.values())
