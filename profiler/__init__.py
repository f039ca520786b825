"""What runs inside or beside a serving process. Here: the grammar of the ranges it leaves."""
