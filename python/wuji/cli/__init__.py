"""What the command ``wuji`` can do."""
