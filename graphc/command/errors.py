"""How a command ends: its exit codes, and the errors that carry them."""

DONE = 0
FAILED = 1  # the command ran, and what it checks does not hold
MISUSED = 2  # the command line cannot be understood, as argparse has it
RAISED = 3  # the target's own code raised, or graphc refused its program


class CommandError(Exception):
    """Raised with a message for whoever typed a command that cannot be run."""

    code = MISUSED


class TargetError(CommandError):
    """The target's own code raised an error."""

    code = RAISED


def without_place(error: Exception) -> str:
    """The message of an error without its place, which is none of the user's lines.

    For an error of a file, its name and the problem.
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0]).split("\n  at ")[0]
