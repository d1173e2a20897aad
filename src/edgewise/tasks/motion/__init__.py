"""The positions or accelerations of moving bodies."""
