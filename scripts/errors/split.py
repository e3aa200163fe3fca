"""Splits a message into what is wrong and what to do."""
import re

# With one of these a sentence begins that says what to do.
VERBS = """
Add Allow Append Ask Begin Build Cache Call Change Check Choose Close Compare Compile Compute
Convert Copy Correct Count Create Crop Declare Decode Define Destroy Do Double Drop Encode End
Erase Evaluate Exclude Export Fill Fork Free Freeze Get Give Hold Include Init Initialise Install
Join Keep Leave Let Link Load Look Lower Make Mark Move Multiply Name Nest Open Order Pass Permute
pip Point Put Quote Raise Read Record Reduce Register Release Remove Rename Repair Repeat Replace
Reshape Resize Restart Restore Return Run Save Send Set Show Skip Split Stack Start Store Sum
Switch Take Train Try Turn Unpack Unset Update Use Wait Write
""".split()
VERB = re.compile(rf"(?:{'|'.join(VERBS + [v.lower() for v in VERBS])})\b")
BREAK = re.compile(r"(?<=[.;:?)\ue001])\s+(?=\S)")
ASKS = re.compile(r"(?:Is|Are|Was|Were|Has|Do|Does) [^?]*\?")
MUST = re.compile(r"^[^.;:]*\b(?:must|needs?|need at least)\b")
CONDITION = re.compile(rf"^(?:If|For|In|in|Where|where|When|when|With|Without|Only|Of|To|Instead)\b"
                       rf"[^.;:]*?[, ] *(?={VERB.pattern})")
WHAT_TO_DO = "\ue000what to do\ue001"


def is_cure(clause):
    clause = re.sub(r"^(?:then|or|and|next|Next|please) ", "", clause)
    if found := CONDITION.match(clause):
        clause = clause[found.end() :]
    return bool(VERB.match(clause) or ASKS.match(clause) or MUST.match(clause) or
                clause.startswith(WHAT_TO_DO))


def breaks(text):
    """Returns the index at which a sentence or a clause begins, and whether it is the first,
    behind the place."""
    prefix = re.match(r"[^.;`]{1,60}?: ", text)
    for found in BREAK.finditer(text):
        if not text[: found.start()].endswith(("e.g.", "i.e.")):
            yield found.start(), found.end(), bool(prefix) and found.end() == prefix.end()


def divided(text):
    """Returns (what is wrong, what to do). The second is empty if the text does not say it."""
    places = [*breaks(text)]
    for begin, end, is_first in places:
        rest = text[end:]
        if text[begin - 1] == "\ue001" and not (rest[0].isupper() or rest.startswith(WHAT_TO_DO)):
            continue
        if not is_first and is_cure(rest):
            return text[:begin], rest
    for begin, end, is_first in places:
        if is_first and is_cure(text[end:]):
            return text[:begin], text[end:]
    return text, ""
