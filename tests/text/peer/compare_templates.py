"""Compares chat templates with Jinja's sandbox as the package `transformers` sets it up.

compare_templates.py PEER FOLDER [--count N] [--seed N]
compare_templates.py --record FOLDER: writes FOLDER/recorded.json for the quick tier instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Expressions, each of which is a template.
EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 | 7 % 3 ~ 'x' | 2 ** 3 ** 2 | -2 ** 2 | -7 // 2 | -7 % 3 | 7 / 2 | 1e3 | 0.1 + 0.2 | 1e16 | 1e-5 | 123456789012.5
'a' 'b' | 'x' in 'xyz' | 'q' not in ['a', 'b'] | not true or false and none | 1 < 2 < 3 | 1 < 3 < 2 | 'a' < 'b' | [1, 2] == [1, 2] | (1, 2) | (1,) | ()
[1, 2, 3][-1] | [1, 2, 3][1:] | 'hello'[::-1] | 'hello'[1:-1:2] | [1, 2, 3][5] is defined | {'a': 1}.a | {'a': 1}['a'] | {'a': 1}.get('b', 2) | {'a': 1, 'b': 2}.items() | list
'  x '.strip() ~ '|' | 'a,b,c'.split(',') | 'a b  c'.split() | 'a,b,c'.split(',', 1) | 'a,b,c'.rsplit(',', 1) | ' a b '.split(none, 1) | 'abc'.find('c') | 'x' * 3 | [0] * 2 | 'ab'.upper() | 'Straße'.upper() | 'ΣΑΣ'.lower() | 'hello wORLD'.title() | 'hello wORLD'.capitalize()
"it's" | "it's a \"quote\"" | ["it's", 'a "b"', 'tab\t', 'new\nline', 'é', '\x01', '日本'] | {'a': [none, true, false, 1.0]} | 'x' if false | 'x' if false else 'y' | undefined_name | undefined_name is defined | undefined_name is undefined | x.y is defined
3 is odd | 4 is even | 9 is divisibleby 3 | 9 is divisibleby(4) | 'a' is string | 1 is number | true is number | true is integer | 1.5 is float | none is none | {} is mapping | [] is sequence | 'a' is iterable | 1 is iterable | 5 is eq 5 | 5 is gt(3) | 5 is in [5, 6] | 'A' is upper | 'a' is lower
[3, 1, 2] | sort | join('-') | ['b', 'A', 'c'] | sort | ['b', 'A'] | sort(case_sensitive=true) | [3, 1] | sort(reverse=true) | [1, 2, 2, 1] | unique | list | [1, 2, 3] | first | [] | first | [1, 2, 3] | last | [1, 2, 3] | sum | [1, 2] | max | 'abc' | length | 'abc' | reverse | [1, 2] | reverse | list | {'b': 1, 'a': 2} | dictsort | {'b': 1} | tojson | {'b': [1, {}], 'a': []} | tojson(indent=2) | '<é">' | tojson | 1.0 | tojson
' x ' | trim | 'xxaxx' | trim('x') | 'a' | default('b') | none | default('b') | '' | default('b', true) | q | d | '12' | int | 'x' | int | '1.9' | int | 3.9 | int | 'x' | int(7) | '1.5' | float | -3 | abs | 'a\nb' | indent | 'a\n\nb' | indent(2, true) | 'hello world-foo' | title | '<&>' | escape | 'abc' | replace('b', 'x') | 'abc' | list | 5 | string | 'aXb' | lower
[{'a': 1}, {'a': 2}, {}] | map(attribute='a') | list | [{'a': 1}, {}] | map(attribute='a', default=0) | list | ['a', 'b'] | map('upper') | list | [1, 2, 3, 4] | select('odd') | list | [1, 0] | reject | list | [{'r': 'u'}, {'r': 'a'}] | selectattr('r', 'equalto', 'u') | list | [{'r': 1}, {}] | rejectattr('r', 'defined') | list | [1, none] | select('none') | list
range(5) | list | range(1, 10, 3) | list | range(3, 0, -1) | list | dict(a=1) | namespace(a=1).a | 'a-b_c'.replace('-', '').replace('_', ' ') | 'abc'.startswith('ab') | 'abc'.endswith(('x', 'c')) | 'a\nb\r\nc'.splitlines() | 'x'.join(['a', 'b']) | 'abc'.partition('b') | 'a1'.isalnum() | '12'.isdigit() | 'ab'.isalpha() | 'aab'.count('a') | 'prefix-x'.removeprefix('prefix-') | strftime_now('%Y-%m-%d %H:%M %B %b %d %A %a %j'[:-3])
1 if 2 > 1 else 0 | (1 if 0 else 2) + 3 | [1, 2] + [3] | 'a' ~ 1 ~ none ~ true ~ 1.5 | 1 == 1.0 | true == 1 | 'a' == none | not 1 in [2] | loop is defined | {'a': {'b': [10, 20]}}.a.b[1] | {1: 'x'}[1] | 'é'.encode | 1_000 | "\u00e9\x41" | [[1, 2], [3]] | map('first') | list | [1,2,3].index(2) | 5 // 0 | 'a' + 1 | [1] < ['a'] | x.y.z | raise_exception('no') | 'a' % 'b'
"""

# Statements and spaces.
TEMPLATES = [
    "a\n  {% if true %}\n b\n  {% endif %}\nc\n", "a {%- if true -%} b {%- endif -%} c", "  {{- 1 -}}  x\n",
    "{% for i in range(3) %}{{ loop.index }}{{ loop.last }}{{ loop.revindex0 }}{{ loop.cycle('a', 'b') }},{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }};{% endfor %}", "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for k in {'a': 1, 'b': 2} %}{{ k }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    "{% for x in [1,2,3,4] if x is even %}{{ loop.index }}:{{ x }} {% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(a=3, b=4) }}{{ f() }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set t %} x {% endset %}[{{ t }}]", "{% set t | upper %}abc{% endset %}{{ t }}",
    "{% raw %}{{ x }}{% endraw %}", "{% raw %}\n {{ x }}\n {% endraw %}\ny", "{# c #}\nx{#- c -#}  y", "x\r\ny\rz\n\n", "{{ '{{' }}{{ '%}' }}",
    "  {%+ if true %}x{% endif +%}\ny", "{% for i in range(5) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a }}", "{% filter upper | trim %} abc {% endfilter %}",
    "{% if x %}1{% elif y is not defined %}2{% else %}3{% endif %}", "{% generation %}x{% endgeneration %}",
    "{% for m in messages %}{{ m.role }}={{ m['content'] }};{% endfor %}", "{{ messages[0].content[0] }}", "{{ messages | tojson }}",
    "{% macro m(x) %}{{ x }}{{ v }}{% endmacro %}{% set v = 5 %}{{ m(1) }}", "{% for i in [1] %}{% set q = 2 %}{% endfor %}{{ q }}",
    "{% if true %}{% set q = 2 %}{% endif %}{{ q }}", "a{% if true %}\n\nb{% endif %}", "\n{% if true %}x{% endif %}\n\n",
    "{%- for m in messages %}\n    {{- m.role }}\n{%- endfor %}\n", "{{ {'a': {'b': 1}} }}", "{{ 'x' }}\n{{ 'y' }}\n",
    "{% for i in 'abc' %}{% for j in [1,2] %}{{ loop.depth }}{{ i }}{{ j }}{% endfor %}{% endfor %}",
]


# What the expressions of templates raise.
RAISED = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Generation(Extension):
    tags: ClassVar[set[str]] = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    now = datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC)
    env.globals["strftime_now"] = now.strftime
    return env


def word(random_: random.Random) -> str:
    return random_.choice(["Hello", " hi ", "", "what's 2+2?", "日本語 ", "line\nline", "<think>\nhm\n</think>\n\nYes",
                           "<tool_response>x</tool_response>", "{\"a\": 1}", "'\"\\", "👍🏽", "\ttab", "<|im_end|>"])


def chat(random_: random.Random) -> dict:
    messages = []
    if random_.random() < 0.4:
        messages.append({"role": "system", "content": word(random_)})
    for i in range(random_.randint(0, 5)):
        role = "user" if i % 2 == 0 else "assistant"
        if random_.random() < 0.1:
            role = random_.choice(["tool", "user", "assistant"])
        message = {"role": role, "content": word(random_)}
        if role == "assistant" and random_.random() < 0.3:
            message["tool_calls"] = [{"id": f"call{n}", "type": "function", "function": {
                "name": "weather", "arguments": {"city": word(random_), "days": n, "exact": 1.5}}}
                for n in range(random_.randint(1, 2))]
        if role == "user" and random_.random() < 0.1:
            message["content"] = [{"type": "text", "text": word(random_)}, {"type": "image"}]
        messages.append(message)
    variables = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "tools": None,
                 "add_generation_prompt": random_.random() < 0.5}
    if random_.random() < 0.4:
        variables["tools"] = [{"type": "function", "function": {
            "name": "weather", "description": "The \"weather\" of a city", "parameters": {
                "type": "object", "required": ["city"], "properties": {
                    "city": {"type": "string"}, "Days": {"type": "integer", "default": 1},
                    "where": {"type": "object", "properties": {"x": {"type": "number"}, "y": {}}}}}}}]
    if random_.random() < 0.3:
        variables["enable_thinking"] = random_.random() < 0.5
    return variables


def requests(folder: Path, count: int, seed: int) -> list[dict]:
    random_ = random.Random(seed)
    first = chat(random.Random(3))
    first["messages"] = first["messages"] or [{"role": "user", "content": "x"}]
    out = [{"template": t, "variables": first} for t in TEMPLATES]
    for line in EXPRESSIONS.strip().splitlines():
        parts = line.split(" | ")
        # A part may be a filter of the one before it: all runs of parts that are expressions.
        for i in range(len(parts)):
            for j in range(i + 1, min(i + 4, len(parts)) + 1):
                out.append({"template": "{{ " + " | ".join(parts[i:j]) + " }}", "variables": {}})
    sources = [f.read_text() for f in sorted(folder.glob("*.jinja"))]
    for i in range(count):
        out.append({"template": sources[i % len(sources)], "variables": chat(random_)})
    return out


def of_python(text: str | None) -> bool:
    """Whether a text shows an object of Python that no template of a model prints."""
    return text is not None and (" at 0x" in text or text.startswith(("dict_items(", "range(")))


def record(folder: Path) -> None:
    """Results of Jinja; null where it fails. Templates in files are named."""
    env = environment()
    names = [f.name for f in sorted(folder.glob("*.jinja"))]
    out = []
    wanted = requests(folder, 90, 5)
    for i, request in enumerate(wanted):
        try:
            text = env.from_string(request["template"]).render(**request["variables"])
        except RAISED:
            text = None
        if of_python(text):
            continue
        case = {"template": request["template"], "variables": request["variables"], "text": text}
        if i >= len(wanted) - 90:
            del case["template"]
            case["file"] = names[(i - len(wanted) + 90) % len(names)]
        out.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in out)
    (folder / "recorded.json").write_text(f"[{lines}]\n")


def main() -> int:
    if sys.argv[1:2] == ["--record"]:
        record(Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wanted = requests(options.folder, options.count, options.seed)
    text = "".join(json.dumps(r) + "\n" for r in wanted)
    done = subprocess.run([options.peer, "template"], input=text.encode(), stdout=subprocess.PIPE, check=False)
    results = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    if len(results) != len(wanted):
        raise SystemExit(f"{len(results)} results for {len(wanted)} templates: {results[-1:]}")
    env = environment()
    differences, errors, refused = 0, 0, 0
    for request, ours in zip(wanted, results):
        try:
            expected = env.from_string(request["template"]).render(**request["variables"])
        except RAISED as error:
            expected = None
            reason = error
        if of_python(expected):
            continue
        if expected is None and "error" in ours:
            errors += 1
            continue
        if "not supported" in ours.get("error", "") and len(request["template"]) < 200:
            refused += 1
            print(f"refused: {request['template']!r}: {ours['error']}")
            continue
        if expected != ours.get("text"):
            differences += 1
            print(f"{request['template'][:200]!r}\n  ours   {ours}\n  theirs {expected!r}"
                  f"{'' if expected is not None else ' ' + repr(reason)}")
    print(f"templates: {len(wanted)}, {differences} differ, {errors} are errors in both, {refused} refused")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
