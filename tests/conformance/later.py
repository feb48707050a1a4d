"""The cases that are left to later parts of the project, and which part owns them."""

GRADIENTS = "Part 3: gradients"
LOOPS = "Part 6: loops"

LATER: dict[str, str] = {
    "reshape_grad": GRADIENTS,
    "slice_to_n_grad": GRADIENTS,
    "mask_log_sum_grad": GRADIENTS,
    "mask_normal_logp": GRADIENTS,
    "repeat_counts_grad": GRADIENTS,
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
