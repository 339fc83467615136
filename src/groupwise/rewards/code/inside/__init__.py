"""What runs inside the sandboxes: `start` first, then `program` or `examiner`, which talk over `wire`."""
