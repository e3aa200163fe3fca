"""Finds the texts of a function's local variables."""
from cpp import split
from names import has_literal, joined, varies


class LocalTexts:
    """What a variable was given before the place that is looked at, and what was appended."""

    def places(self, name):
        """Returns the places in this function that name it, before what is looked at."""
        if not self.function:
            return []
        begin = [*self.around()][-1].body[0]
        tokens = self.source.tokens
        return [at for at in range(begin, self.at) if tokens[at].text == name
                and tokens[at - 1].text not in (".", "->", "::")]

    def of_local(self, name):
        """What a local variable was given, and what was appended."""
        texts = choice = None
        for at in self.places(name):
            after, is_new = self.source.tokens[at + 1].text, self.is_new(at)
            if is_new and after in ("=", "(", "{", ";", ":"):
                texts = self.initial(at, name)
            elif texts is None:
                continue
            elif after == "=":
                texts = [t for t in [*texts, *self.assigned(at, name)] if t] or texts
            elif after in ("+=", "<<"):
                more = self.appended(at, name)
                if more is None:
                    return [varies(name)]
                choice = self.choice_at(at, texts, more, choice)
                texts = joined(choice)
        return list(dict.fromkeys(texts)) if texts else texts

    def is_new(self, at):
        """Whether the variable is declared here."""
        before = self.source.tokens[at - 1]
        if before.kind == "word":
            return before.text not in ("return", "else", "throw", "case")
        return before.text in ("*", "&", ">") or (
            before.text == "," and self.source.tokens[at + 1].text in ("=", ";"))

    def initial(self, at, name):
        """Returns the texts of a declaration, or None if they are not of text."""
        tokens = self.source.tokens
        after, before = tokens[at + 1], tokens[at - 1].text
        if after.text == ":" and tokens[at + 2].text == "{":  # a loop over a list
            inside = split(tokens[at + 3 : tokens[at + 2].match], ",")
            return [t for part in inside for t in self.of(part)]
        if after.text == ";":
            return [""] if before in ("string", "ostringstream") else None
        if after.text == "=":
            texts = self.assigned(at, name)
        elif after.text == "(" or after.text == "{":
            inside = split(tokens[at + 2 : after.match], ",")
            texts = self.of(inside[0]) if len(inside) == 1 else None
        else:
            return None
        return texts if texts and any(
            has_literal(t) or t == "" or "`" in t for t in texts) else None

    def assigned(self, at, name):
        right = self.source.tokens[at + 2 : self.source.end_of(at + 2, ";,")]
        return [varies(name)] if name in [t.text for t in right] else self.of(right)

    def appended(self, at, name):
        """The texts that are appended; None in a loop, as of a list."""
        right = self.source.tokens[at + 2 : self.source.end_of(at + 2, ";")]
        return None if name in [t.text for t in right] else self.of(right)

    def choice_at(self, at, texts, more, choice):
        """[what there is, what `if` and `else` append]."""
        tokens, before = self.source.tokens, self.source.tokens[at - 1]
        if before.text == "else":
            return [choice[0], [t for t in choice[1] if t] + more]
        if before.text == ")":
            condition = before.match - 1
            if tokens[condition].text == "if" and tokens[condition - 1].text == "else":
                return [choice[0], choice[1] + more]
            return [texts, ["", *more]]
        return [texts, more]
