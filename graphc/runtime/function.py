"""Compiled functions: binding arguments and calling the program."""

import ast
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from graphc.backends.linear import emit_unjitted
from graphc.backends.program import Outputs, Source
from graphc.errors import CallError, graph_error
from graphc.ir.dims_names import naming
from graphc.rewriting.engine import Application, applied
from graphc.runtime import alarms, xla
from graphc.runtime.adapt import Adapter
from graphc.runtime.advice import Advisor, Overseer
from graphc.runtime.arguments import Backend, Signature
from graphc.runtime.devices import ON_DEFAULT, Target
from graphc.runtime.failure import Program, ProgramCallError, call_error, running
from graphc.runtime.generations import Generation, Generations
from graphc.runtime.log import Compilation, Log, Stats
from graphc.runtime.tiering import Tiers
from graphc.transform.plan import Plan
from graphc.transform.report import explain
from graphc.transform.summary import summary

Watcher = Adapter | Advisor | Overseer


class Function:
    """A compiled program; call it with one argument per input.

    `source` is the very text that runs (with two tiers, that on JAX); `rewrites` tells
    which rules changed the graph before, and where.
    """

    def __init__(
        self,
        plan: Plan,
        source: Source,
        backend: Backend,
        outputs: Outputs,
        defaults: Mapping[int, Any],
        rewrites: tuple[Application, ...] = (),
        unjitted: Callable[[], Plan] | None = None,
        adapter: Watcher | None = None,
        numpy: tuple[Plan, Source] | None = None,
        names: Mapping[object, str] = {},
        target: Target = ON_DEFAULT,
    ) -> None:
        self._target = target
        self._names = names  # of sizes, where not their own
        self._plan_unjitted = unjitted or (lambda: plan)
        self.rewrites = rewrites
        self.backend = backend
        self._outputs = outputs
        self._defaults = defaults
        self._adapter = adapter
        self._changing = isinstance(adapter, Adapter) and numpy is None
        self._calls = 0
        self._before: list[Compilation] = []
        self._generations = Generations()
        self._changes: list[str] = []
        self._jax_callable: Callable[..., Any] | None = None
        self._tiers = numpy and Tiers(*numpy, outputs, self._changes.append)
        self._install(plan, source)

    def _install(self, plan: Plan, source: Source) -> None:
        """Go on with this program."""
        self.plan = plan
        self.source = source.text
        self._count = len(plan.called.inputs)
        self._log = Log(plan, source.sizes, self._names)
        self._pending = self._log.pending
        name = f"<graphc {self.backend} program>"
        self._program = Program(source.text, name, source.foreigns)
        module = self._program.load()
        module.compiling = self._log.compiling
        self.jax: Any = getattr(module, "jax", None)  # which NumPy programs lack
        if self.jax is not None:
            xla.listen(self.jax)
            self._log.traces = lambda: not self.jax.config.jax_disable_jit
        if hasattr(module, "on_device"):
            module.on_device = xla.quick(self.jax, module.on_device)
        self._run: Callable[..., Any] = self._target.around(self.jax, module.program)
        if self.jax is not None and plan.padded is not None:
            self._run = alarms.around(self.jax, self._run)
        self._newest = Generation(plan, self._program, self._run, self._log)
        self._notes = self._changing and self._newest.split
        self._run = self._generations.around(self._run)
        if self._tiers is not None:
            self._run = self._tiers.around(plan, self._run, self._pending)
        self._signature = Signature(
            plan.called.inputs,
            plan.called.input_names,
            self._defaults,
            self.backend,
            module.check_inputs,
            plan.casting,
            self.jax if self._tiers is None else None,
        )
        self._plain = self._signature.plain

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Run the program.

        Raises CallError where the arguments do not fit, or what an `assert_` asks for;
        nothing is changed then.
        """
        start = len(xla.EVENTS)
        try:
            if named or len(args) != self._count:
                args = self._signature.bind(args, named)
            if not self._plain.issuperset(map(type, args)):
                args = self._signature.admit(args)
            result = self._run(*args)
        except Exception as error:
            failure = self._failure(error, args)
            raise failure from failure.__cause__
        self._calls += 1
        if self._notes:
            self._newest.note(args)
        if self._pending or len(xla.EVENTS) != start:
            self._settle(args, max(start, self._generations.start))
        return result

    def _settle(self, args: tuple[Any, ...], start: int) -> None:
        """Record what the call has compiled, and change the program if that helps."""
        new = self._log.settle(xla.since(start))
        if self._changing and new:
            self._newest.note(args)
        if self._adapter is not None:
            self._adapt(self._adapter, new)

    def _adapt(self, adapter: Watcher, new: list[Compilation]) -> None:
        """Change the program where sizes have turned out to vary."""
        originals = self.plan.originals
        sizes = {k: originals.get(s, s) for k, s in self._log.sizes.items()}
        change = adapter.notice(new, sizes, self._calls, self.plan)
        if change is not None:
            plan, source, why = change
            if self._changing:
                self._generations.older.append(self._newest)
            else:
                self._before += self._log.done
            self._changes.append(why)
            self._install(plan, source)

    def _failure(self, error: Exception, args: tuple[Any, ...]) -> Exception:
        """The error of a failed call; segments that were compiled stay compiled."""
        if type(error) is CallError:  # from the signature
            return error.with_traceback(None)
        older = self._generations.running
        program = self._program if older is None else older.program
        self._log.fail(running(error, program))
        misfit = self._signature.check(args)  # sees the arguments as they were given
        if misfit is not None:
            return misfit
        if isinstance(error, ProgramCallError):
            return error.chosen(self._signature.misfit(error, args))
        if self._tiers is not None and self._tiers.program.frames(error):
            program = self._tiers.program
        return call_error(error, program, self._signature.text(args))

    @cached_property
    def _unjitted(self) -> Plan:
        """The plan at true sizes, without tests that the host makes."""
        return self._plan_unjitted()

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """Positions of the inputs that must be static when users jit themselves."""
        return self._unjitted.static_inputs

    @property
    def jax_callable(self) -> Callable[..., Any]:
        """The program as plain JAX, un-jitted, to transform and compile yourself."""
        if self._jax_callable is None:
            source = emit_unjitted(self._unjitted, self._outputs)
            name = "<graphc un-jitted program>"
            program = Program(source.text, name, source.foreigns)
            self._jax_callable = program.load().program
        return self._jax_callable

    def stats(self) -> Stats:
        """Calls and compilations so far."""
        done = [*self._before, *self._generations.compilations, *self._log.done]
        numpy = 0 if self._tiers is None else self._tiers.calls
        return Stats(self._calls, done, list(self._changes), numpy)

    def explain(self, full: bool = False) -> str:
        """Why the program is split as it is: a line per segment and per reason.

        `full`: each step, with the user's lines, guards, and the rules applied before.
        """
        tier = "" if self._tiers is None else self._tiers.explain()
        with naming(self.plan.names(self._names)):
            if not full:
                return summary(self.plan, self.backend) + tier
            return explain(self.plan, self.backend) + tier + applied(self.rewrites)

    @property
    def numpy_source(self) -> str:
        """The text that runs on NumPy; with one tier "", or `source` itself."""
        if self._tiers is not None:
            return self._tiers.program.text
        return self.source if self.backend == "numpy" else ""

    def segment_source(self, index: int) -> str:
        """The lines of `source` that segment `index` of the plan is printed as."""
        name = f"segment_{index}"
        for node in ast.parse(self.source).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return ast.get_source_segment(self.source, node) or ""
        raise graph_error(
            f"there is no segment {index}",
            op="segment_source",
            got=f"{len(self.plan.segments)} segments on {self.backend}",
        )

    def save(self, path: Any) -> None:
        """Write the program to a file that runs without graphc."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)

    def __reduce__(self) -> Any:
        raise graph_error(
            "a compiled function cannot be pickled: loading it would run code",
            op="pickle",
            got=repr(self),
            hint="f.save(path) writes a program that runs without graphc",
        )

    def __repr__(self) -> str:
        with naming(self._names):
            inputs = ", ".join(map(str, (v.type for v in self.plan.called.inputs)))
            outputs = ", ".join(map(str, (v.type for v in self.plan.called.outputs)))
        return f"<graphc.Function ({inputs}) -> ({outputs}) on {self.backend}>"
