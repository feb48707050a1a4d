"""Matrix products and other sums of products."""
