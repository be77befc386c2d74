"""Texts that try to be more than text: a short list for the suite, and two hundred for --long."""

from __future__ import annotations

HOSTILE = [
    '<img src=x onerror="owned=1">',
    "<script>owned=1</script>",
    "\"'><svg onload=owned=1>",
    "javascript:owned=1//${owned=1}{{constructor.constructor('owned=1')()}}",
    "</textarea></title></style><iframe srcdoc='<script>parent.owned=1</script>'>",
    "\u202eright-to-left override\u202c \u2066isolates\u2069 \u200b\ufeff",
    "شركة النور للتجارة والتوزيع المحدودة " * 6,
    "W" * 3000,
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f" * 20,
    "line\nbreak\ttab\rreturn \x1b[31mred\x1b[0m",
    "\u0007\u0001\u001f control",
    "𝕏👩\u200d👩\u200d👧\u200d👦" * 30,
    "&lt;b&gt; &amp; &#60;i&#62; %3Cb%3E \\u003cb\\u003e",
    "[object Object] null undefined NaN __proto__ constructor",
    "' OR 1=1 --",
]

_EVENTS = (
    "onerror",
    "onload",
    "onclick",
    "onmouseover",
    "onfocus",
    "onanimationstart",
    "ontoggle",
    "onpointerenter",
)
_TAGS = (
    "img src=x",
    "svg",
    "body",
    "details open",
    "input autofocus",
    "video src=x",
    "marquee",
    "object data=x",
)
_BREAKS = (
    '"',
    "'",
    "`",
    "-->",
    "]]>",
    "</script>",
    "</style>",
    "\\",
    "/*",
    "*/",
    "${",
    "{{",
    "<!--",
    "<![CDATA[",
)
_URLS = (
    "javascript:owned=1", "JaVaScRiPt:owned=1", "java\tscript:owned=1", "data:text/html,<script>owned=1</script>", "vbscript:owned=1",
    "//evil.example/x.js", "https://evil.example/?a=<script>", "blob:https://evil.example/1", "file:///etc/passwd", "\\\\evil.example\\share",
    "../../../../etc/passwd", "%2e%2e%2f%2e%2e%2f", "?q=state:failed#x", "#/jobs", "mailto:a@b?subject=<b>",
)  # fmt: skip
_WORDS = (
    "__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "undefined", "null", "NaN", "Infinity", "-0", "1e999",
    "0x1F", "true", "[]", "{}", '{"__proto__": {"owned": 1}}', "[object Object]", "function(){owned=1}", "${7*7}", "{{7*7}}", "<%= 7*7 %>", "#{7*7}",
    "=1+1", "+1", "@SUM(1)", "' OR '1'='1", "'; DROP TABLE job; --", "%s%s%s%n", "{0}{1}", "%00", "\\0", "\\u0000", "\\x3cscript\\x3e",
)  # fmt: skip
_LETTERS = (
    "مهندسی نرم‌افزار", "עברית עם English באמצע", "שלום 123 (abc) [x]", "日本語の長い説明文" * 12, "한국어 설명 " * 20, "ไทยไม่มีช่องว่างระหว่างคำ" * 8,
    "हिन्दी में लंबा नाम " * 10, "ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ", "\ufdfd" * 20, "ﷺ" * 40, "Ǆ ŉ ﬁ ẞ ı İ", "e\u0301" * 60, "a" + "\u0300" * 200,
    "👍🏿👨\u200d👩\u200d👧🏳️\u200d🌈" * 10, "🇪🇪🇩🇪" * 20, "\u202a\u202b\u202d\u202e", "\u2066\u2067\u2068", "\u200e\u200f\u061c", "\u2028line\u2029paragraph",
    "soft\u00adhyphen" * 30, "no\u00a0break" * 30, "\u3000wide\u3000space", "\u180e\u200b\u200c\u200d\u2060\ufeff", "\U000e0041\U000e0042 tags", "\ufffe\uffff",
)  # fmt: skip
_SHAPES = (
    "W" * 9000, "i" * 9000, "word " * 1500, "\n" * 200, "a\n" * 300, "\t" * 200, " " * 500 + "x", "x" + " " * 500, "-" * 2000, "_" * 2000, "a/b" * 900,
    "a.b" * 900, "https://example.org/" + "x" * 2000, "<" * 500, "&" * 500, '"' * 500, "\\" * 500, "(" * 500, "0" * 500, ".", "\u2003" * 100,
)  # fmt: skip


def _all() -> list[str]:
    found = [*HOSTILE, *_URLS, *_WORDS, *_LETTERS, *_SHAPES]
    found += [f"<{tag} {event}=owned=1>" for tag in _TAGS for event in _EVENTS[:4]]
    found += [f"{end}<svg {event}=owned=1>" for end in _BREAKS for event in _EVENTS[4:6]]
    found += [f"a{chr(code)}b control {code}" for code in (*range(1, 32), 0x7F, 0x80, 0x9F)]
    return list(dict.fromkeys(found))


EVERY = _all()
assert len(EVERY) >= 200
