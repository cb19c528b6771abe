"""CUDA C++ to PTX or machine code at run time: finding a compiler, running it, keeping results."""
