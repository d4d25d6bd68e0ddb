"""ssl.principal.mapping.rules: maps the subject of a client's certificate to the name of its principal (KIP-371)."""

import re
from typing import Final, NamedTuple

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<name>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)


class MappingRulesError(ValueError):
    """The rules cannot be parsed. The message says where."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    name: str
    case: str


class PrincipalRules:
    """Rules that are tried in order. DEFAULT or an empty list keeps the subject's distinguished name."""

    def __init__(self, text: str) -> None:
        """Raises MappingRulesError."""
        self._rules: list[_Rule | None] = []
        text = text.strip()
        position = 0
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None or match.end() == position:
                raise MappingRulesError(
                    f"ssl.principal.mapping.rules cannot be parsed at {text[position:][:60]!r}: "
                    "specify rules of the form RULE:pattern/replacement/[L|U] or DEFAULT, separated by commas"
                )
            self._rules.append(None if match["default"] else self._rule(match))
            position = match.end()

    def _rule(self, match: "re.Match[str]") -> _Rule:
        try:
            pattern = re.compile(match["pattern"].replace(r"\/", "/"))
        except re.error as error:
            raise MappingRulesError(
                f"ssl.principal.mapping.rules: {match['pattern']!r} is not a regular expression: {error}"
            ) from error
        return _Rule(pattern, match["name"], match["case"])

    def name(self, subject: str) -> str | None:
        """Return the name for a subject (RFC 2253), or None if no rule matches and the client is to be rejected."""
        if not self._rules:
            return subject
        for rule in self._rules:
            if rule is None:
                return subject
            match = rule.pattern.fullmatch(subject)
            if match is not None:
                name = _filled_in(rule.name, match).strip()
                return {"L": name.lower, "U": name.upper}.get(rule.case, name.__str__)()
        return None


def _filled_in(template: str, match: "re.Match[str]") -> str:
    """Expand a replacement as in Java, where $1 is a group and a backslash escapes a character."""

    def part(found: "re.Match[str]") -> str:
        if found["escaped"] is not None:
            return found["escaped"]
        group = int(found["group"])
        return (match[group] or "") if group <= pattern.groups else found[0]

    pattern = match.re
    return re.sub(r"\\(?P<escaped>.)|\$(?P<group>\d)", part, template)
