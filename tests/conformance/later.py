"""The cases that are left to later parts of the project, and which part owns them."""

LOOPS = "Part 6: loops"

LATER: dict[str, str] = {
    "scan_n_last": LOOPS,
    "scan_over_seq": LOOPS,
    "scan_while_last": LOOPS,
    "scan_seq_trunc": LOOPS,
    "scan_prefix_inside": LOOPS,
    "scan_while_grad": LOOPS,
    "scan_fib_n": LOOPS,
    "scan_nested_k": LOOPS,
    "scan_variable_lengths": LOOPS,
    "kalman_missing": LOOPS,
}
