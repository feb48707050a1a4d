"""The command line: its parser, and what each command prints."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

import graphc
from graphc.command.bench import bench
from graphc.command.doctor import make_findings
from graphc.command.entries import entry_text, titles
from graphc.command.errors import DONE, FAILED, CommandError, without_place
from graphc.command.sizes import array_specs, calls_of, each_or_all, sizes_of
from graphc.command.subject import CommandSubject, subject_of
from graphc.command.target import target_of
from graphc.errors import GraphError
from graphc.runtime.calibrate import measure_costs

EXAMPLES = """examples:
  graphc explain model.py:loss                  how the function is split, and why
  graphc explain step.py:step --args 'float32[n,d]' --sizes n=3..9 d=4
  graphc show model.py:loss --out plan.html     the plan as a page
  graphc forecast model.py:loss --sizes n=1..500 d=16
  graphc bench step.py:step --args 'float32[n]' --sizes n=1..60 --dims pad
  graphc source model.py:loss --model           the program, without shared parts
  graphc doctor --json                          what is installed, and what runs
  graphc calibrate --json                       the costs of this device
  graphc help call-dtype                        an error explained, by its entry

exit codes:
  0  done
  1  a check failed: results of bench differ, doctor found a fault
  2  the command line cannot be understood, or names something that is missing
  3  the code of the target raised an error, or graphc refused its program
"""
TARGET = "FILE.py:NAME or MODULE:NAME; NAME is a function, of graphc or plain Python"
CommandRun = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; see EXAMPLES."""
    typed = _parser().parse_args(arguments)
    try:
        return int(typed.run(typed))
    except CommandError as error:
        print(f"graphc {typed.command}: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # the reader of stdout, such as `head`, has seen enough
        sys.stderr.close()
        return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "graphc",
        description="Look at functions that graphc compiles, and at this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=graphc.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, run: CommandRun, summary: str) -> argparse.ArgumentParser:
        one = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_examples_of(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=run)
        return one

    def about(name: str, run: CommandRun, summary: str) -> argparse.ArgumentParser:
        one = command(name, run, summary)
        _add_target(one)
        return one

    explain = about("explain", _explain, "tell how a function is compiled, and why")
    explain.add_argument("--full", action="store_true", help="each step and rule")
    show = about("show", _show, "draw the plan as a page, and open it in a browser")
    show.add_argument("--out", help="where to write it: .html, .svg or .json")
    show.add_argument("--no-open", action="store_true", help="only write it")
    source = about("source", _source, "print the program that graphc made")
    source.add_argument("--model", action="store_true", help="without shared parts")
    about("forecast", _forecast, "tell what calls of these sizes would cost")
    about("bench", _bench, "measure a function against jax.jit on these sizes")
    command("doctor", _doctor, "check versions, devices, the cache, and a few programs")
    command("calibrate", _calibrate, "measure the costs of the device for the planner")
    explained = command("help", _help, "explain an error by the entry in its last line")
    explained.add_argument("entry", nargs="?", metavar="ENTRY", help="default: all")
    return parser


def _examples_of(command: str) -> str:
    """The examples of a command, taken from those of all commands."""
    start = f"  graphc {command} "
    lines = [line for line in EXAMPLES.splitlines() if line.startswith(start)]
    return "\n".join(["examples:", *lines]) if lines else ""


def _add_target(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="FILE:NAME", help=TARGET)
    add("--sizes", nargs="+", default=[], metavar="n=1..500", help="sizes of calls")
    add("--args", nargs="+", default=[], metavar="float32[n,d]", help="arrays to pass")
    add(
        "--frontend",
        choices=["jax", "numpy"],
        help="what a plain function is written for",
    )
    add("--dims", help="what to do about sizes that vary: auto, pad, specialize, bound")
    add("--shapes", help='which axes vary, as for graphc.jit: "n d, d"')


def _subject(typed: argparse.Namespace) -> CommandSubject:
    options = {"frontend": typed.frontend, "dims": typed.dims, "shapes": typed.shapes}
    options_set = {name: value for name, value in options.items() if value is not None}
    specs = array_specs(typed.args)
    return subject_of(typed.target, target_of(typed.target), specs, options_set)


def _called_subject(typed: argparse.Namespace) -> CommandSubject:
    """The subject of a command; called at the given sizes if it has no plan before."""
    subject = _subject(typed)
    if not subject.is_planned:
        subject.run(calls_of(sizes_of(typed.sizes)))
    return subject


def _explain(typed: argparse.Namespace) -> int:
    compiled = _called_subject(typed).compiled
    text = compiled.explain(typed.full)
    _print(typed, text, {"explanation": text, "stats": asdict(compiled.stats())})
    return DONE


def _show(typed: argparse.Namespace) -> int:
    subject = _called_subject(typed)
    with contextlib.redirect_stdout(sys.stderr):  # the path is printed once, below
        try:
            path = subject.compiled.show(typed.out, open=not typed.no_open)
        except (GraphError, OSError) as error:
            raise CommandError(f"--out: {without_place(error)}") from None
    _print(typed, str(path), {"path": str(path)})
    return DONE


def _source(typed: argparse.Namespace) -> int:
    source = _called_subject(typed).compiled.source
    text = source.model if typed.model else source
    _print(typed, text, {"source": text})
    return DONE


def _forecast(typed: argparse.Namespace) -> int:
    subject, sizes = _subject(typed), sizes_of(typed.sizes)
    each = each_or_all(sizes)
    if not subject.is_planned:
        raise CommandError(
            f"{typed.target} has no plan before it is called: forecast is for "
            "functions of graphc.function; `graphc bench` calls it and counts"
        )
    try:
        forecast = subject.compiled.plan.forecast(each)  # type: ignore[attr-defined]
    except GraphError as error:
        raise CommandError(f"--sizes: {without_place(error)}") from None
    of_each = " + ".join(map(str, forecast.segments))
    parts = f" = {of_each}, segment by segment" if forecast.segments[1:] else ""
    lines = [
        f"compilations: {forecast.compilations}{parts}",
        f"computed elements: {forecast.waste:.2f} times those that count",
        f"sizes read from the device, in a call: {forecast.reads}",
    ]
    if forecast.unknown:
        lines.append(f"not known before the calls: {', '.join(forecast.unknown)}")
    _print(typed, "\n".join(lines), asdict(forecast))
    return DONE


def _bench(typed: argparse.Namespace) -> int:
    comparison = bench(_subject(typed), calls_of(sizes_of(typed.sizes)))
    _print(typed, str(comparison), asdict(comparison))
    return DONE if comparison.agree else FAILED


def _doctor(typed: argparse.Namespace) -> int:
    findings = []
    for finding in make_findings():
        findings.append(finding)
        if not typed.json:
            print(finding, flush=True)
    if typed.json:
        print(json.dumps([asdict(f) for f in findings], indent=2))
    return DONE if all(finding.ok for finding in findings) else FAILED


def _calibrate(typed: argparse.Namespace) -> int:
    costs = measure_costs()
    _print(typed, str(costs), asdict(costs))
    return DONE


def _help(typed: argparse.Namespace) -> int:
    if typed.entry is None:
        known = titles()
        lines = [f"{name:18} {title}" for name, title in known.items()]
        _print(typed, "\n".join(lines), known)
    else:
        text = entry_text(typed.entry)
        _print(typed, text, {typed.entry: text})
    return DONE


def _print(typed: argparse.Namespace, text: str, data: object) -> None:
    print(json.dumps(data, indent=2, default=str) if typed.json else text)
