"""Prints docs/configuration.md: every key, what it may be, and whether Cordwood goes by it."""

from __future__ import annotations

from cordwood.config.definition import Definition
from cordwood.config.effects import SECTIONS, Effect, Section

INTRODUCTION = """\
# Configuration

Keys, values and defaults are Kafka's. This page is made by `tools/generate_configs.py` from Kafka's facts and
`src/cordwood/config/effects.py`; edit those.

## Where a broker's keys are said
Each of these wins over the ones before it:

1. Kafka's default.
2. The file `server.properties`, in the syntax of `java.util.Properties`.
3. The environment: `CORDWOOD_` and the key in upper case with `_` for each dot. `CORDWOOD_LOG_RETENTION_MS` is
   `log.retention.ms`. For one listener: `CORDWOOD_LISTENER_NAME_<LISTENER>_<KEY>`. (Keys of one SASL mechanism,
   `listener.name.<listener>.<mechanism>.…`, go into the file or `--set`.)
4. `--set name=value`.
5. What was set for all brokers while they ran.
6. What was set for this broker while it ran.

A place that says a key takes back what places before it said of its synonyms: after `log.retention.ms` in the file,
`--set log.retention.hours=24` means 24 hours. Within one place the finest unit wins.

A key that nobody knows, or a value that cannot be, stops the start with a message that says what is allowed and which
key comes nearest. A broker's unknown key is refused by AlterConfigs too, where Kafka keeps it for its plugins.
`config.providers` and values like `${file:…}` are not resolved.

## What the columns say
- *allowed*: the type, and Kafka's rule for the value. A list's repeated entries are dropped.
- *change*: `read-only` is read at the start; `per-broker`, `cluster-wide`, `per-topic` and `per-group` can be changed
  while the node runs.
- *effect*: **works**; *not yet*: accepted and checked, but the part that goes by it is still to come; *never*:
  accepted and checked so that files and tools from Kafka work, but there is nothing here that it could be about;
  *refused*: it promises protection that is not there yet, so that any value but Kafka's default stops the start, and
  is refused while the node runs ([security](security.md)).
- Keys that are Kafka's developers' own are marked *internal*. So are Cordwood's own, which begin with `cordwood.`
  (`src/cordwood/config/own_keys.py`): as Kafka's internal ones, they are described only once they are set.
"""


def main() -> None:
    print(INTRODUCTION)
    print("\n".join(section_text(section) for section in SECTIONS), end="")


def section_text(section: Section) -> str:
    counts = [
        f"{sum(section.rule_of(name).effect is effect for name in section.definitions)} {effect.value}"
        for effect in Effect
    ]
    rows = [
        "| key | default | allowed | change | effect |",
        "|---|---|---|---|---|",
        *(row(section, definition) for definition in section.definitions.values()),
    ]
    return f"## {section.title}\n{len(section.definitions)} keys: {', '.join(counts)}.\n\n" + "\n".join(rows) + "\n"


def row(section: Section, definition: Definition) -> str:
    rule = section.rule_of(definition.name)
    effect = "**works**" if rule.effect is Effect.WORKS else f"*{rule.effect.value}*"
    internal = " (internal)" if definition.internal else ""
    return (
        f"| `{definition.name}`{internal} | {default_of(definition)} | {cell(definition.allowed)} "
        f"| {definition.update.value} | {effect}: {rule.note} |"
    )


def default_of(definition: Definition) -> str:
    if definition.required:
        return "*required*"
    fallbacks = [
        f"`{synonym.name}`" + (f" times {synonym.multiply_by}" if synonym.multiply_by != 1 else "")
        for synonym in definition.broker_synonyms
    ]
    if fallbacks:
        return "the broker's " + ", or else ".join(fallbacks)
    text = definition.default_spelling
    return "none" if text is None else f"`{cell(text)}`" if text else "empty"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
