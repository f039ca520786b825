"""specscope: where does the speculation cycle go?"""

__version__ = "0.1.0"
