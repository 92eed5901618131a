"""Abbreviations whose full stop ends no sentence, and words that rarely follow an initial.

An entry is written without its last full stop and without blanks ("z. B." is "z.B"). It also stands for itself in capitals
("ST", "NO"), and one that begins with a lower-case letter for itself with a capital one ("Vgl", "Cf"). Words that are ordinary
in one of the languages ("gem", "es", "on") are left out, or count before a number only.
"""
# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones

from typing import Literal

Before = Literal["anything", "lower", "number"]


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_TABLE: dict[Before, str] = {
    # Never the end of a sentence: titles, and what introduces something.
    "anything": """
        mr mrs ms dr prof St Ste Mt Ft Gen Col Lt Sgt Capt Cmdr Maj Adm Gov Sen Rep Rev Hon Pres Pfc Wm Messrs vs v viz cf
        e.g i.e Hr Hrn Fr dipl ing h.c z.B d.h u.U z.T v.a i.d.R o.g sog bzw vgl ggf evtl inkl exkl zzgl bspw bzgl tgl Hrsg geb
        MM Mme Mmes Mlle Mlles Mgr Pr p.ex av apr
        Sr Sra Srta Sres Dra Ud Uds Vd Vds EE Profa Lic Gral Avda p.ej
        sig sigg dott avv geom rag p.es
        ул проф акад доц тов т.е т.к т.н
        डॉ प्रो د أ أ.د
    """,
    # The end of a sentence only before a capital, a letter of a script without capitals, or a quotation mark.
    "lower": """
        Inc Ltd Co Cos Corp Bros Jr etc al a.m p.m Ph.D dept approx incl excl esp min hr hrs yr yrs ft lb lbs oz Ave Blvd Rd
        Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec
        ca usw usf ff u.a u.ä o.ä Mio Mrd Std n.Chr v.Chr
        env UU aprox Cía ecc
        г гг т.д т.п др пр руб коп тыс млн млрд кв корп обл см р н.э
    """,
    # No end of a sentence before a number; otherwise a word like any other.
    "number": """
        no nos fig figs eq eqs sec ch chap vol p pp pg art max tel ed
        nr S s Abb Abs Tab Kap Bd str
        pág págs núm cap pag pagg
        д с стр рис гл
    """,
}
ABBREVIATIONS: dict[str, Before] = {word: kind for kind, words in _TABLE.items() for word in words.split()}

# Nouns after an ordinal number: "3. Mai", "im 19. Jahrhundert".
COUNTED = _words("""
    Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert Jahrhunderts
    Jahrtausend Jh Jhd Klasse Stock Stockwerk Etage Platz Mal Tag Woche Monat Jahr Geburtstag Auflage Kapitel Weltkrieg
""")

# After "vitamin C." or "the U.S." these words begin a sentence, while "W. Bush" and "U.S. Army" continue it.
STARTERS = _words("""
    A After All Also An And As At Both But By Even For From He Her Here His How However I If In It Its My No Not Now Of On One
    Or Our She So Some That The Their Then There These They This Those To Was We Were What When Where Which While Who Why
    With Yes You Your
    Er Sie Es Das Die Der Ich Wir Ihr Und Aber Dann Ein Eine Il Ils Elle Elles Je Nous Vous Et Mais Puis
    Ella Ellos Yo Pero Noi Non Ma Io Он Она Они Оно Это Мы Вы Я Но Потом Там Все
""")
