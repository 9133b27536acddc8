"""What people see of a command: text that steers no terminal, and rich's tables and bars."""
