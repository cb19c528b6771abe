"""Sources that read files are refused before a compiler sees them."""

import time

import pytest

import gpuopt
from gpuopt.jit import scan

HOSTILE = {
    "a quoted path": '#include "/etc/passwd"\n',
    "a path upward": "#include <../../../etc/passwd>\n",
    "a path upward inside": "#include <cuda/../../etc/passwd>\n",
    "a macro": '#define H "/etc/passwd"\n#include H\n',
    "a macro of its own file": "#include __FILE__\n",
    "a digraph": '%:include "/etc/passwd"\n',
    "a digraph after blanks": "\t %: include </etc/passwd>\n",
    "a spliced word": '#inc\\\nlude "/etc/passwd"\n',
    "a splice with blanks": '#inc\\  \nlude "/etc/passwd"\n',
    "a spliced sign": '\\\n#include "/etc/passwd"\n',
    "comments between": '/* */ #/**/include/*x*/"/etc/passwd"\n',
    "a comment over lines": '/*\n*/#include "/etc/passwd"\n',
    "include_next": '#include_next "/etc/passwd"\n',
    "import": '#import "/etc/passwd"\n',
    "embed": 'char x[] = {\n#embed "/etc/passwd"\n};\n',
    "a module's import": 'import "/etc/passwd";\n',
    "has_include": '#if __has_include("/etc/passwd")\n#endif\n',
    "has_include in elif": "#if 0\n#elif __has_include (</etc/passwd>)\n#endif\n",
    "has_include in a macro": '#define H(x) __has_include(x)\n#if H("/etc/passwd")\n#endif\n',
    "has_include renamed": '#define H __has_include\n#if H("/etc/passwd")\n#endif\n',
    "has_include of a macro": '#define P "/etc/passwd"\n#if __has_include(P)\n#endif\n',
    "pasted words": '#define C(a, b) a##b\n#if C(__has, _include)("/etc/passwd")\n#endif\n',
    "pasted by digraphs": "#define C(a, b) a%:%:b\n#define D(a, b) C(a, b)\n#if D(a, b)\n#endif\n",
    "a definition before the pasting one": "#define D C(a, b)\n#define C(a, b) a##b\n#if D\n",
    "a raw string that ends late": (
        'const char *s = R"x()\\\nx" R"y( )x";\n#include "/etc/passwd"\n)y";\n'
    ),
    "after a string with a comment": 'const char *s = "/*";\n#include "/etc/passwd"\n',
    "after a character": 'char c = \'"\';\n#include "/etc/passwd"\n',
    "after a digit separator": "int x = 1'000;\n#include \"/etc/passwd\" // '\n",
    "after a directive with an apostrophe": "#if 0\n#error don't\n#endif\n#include </etc/passwd>\n",
    "a trigraph": '??=include "/etc/passwd"\n',
    "a trigraph's splice": '#inc??/\nlude "/etc/passwd"\n',
    "a line of another file": '#line 1 "/etc/passwd"\n',
    "a line by a macro": '#define F "/etc/passwd"\n#line 1 F\n',
    "a line after a comment": '%: line/**/1/**/"/etc/passwd"\n',
    "a line marker": '# 1 "/etc/passwd" 3\n',
    "a line without a number": '#line/* */"/etc/passwd"\n',
}
HARMLESS = [
    ('#include <cuda_fp16.h>\n#include\t"mma.h" // x\n', ["cuda_fp16.h", "mma.h"]),
    ("#include <cuda/std/atomic>\n", ["cuda/std/atomic"]),
    ('// #include "/etc/passwd"\n/*\n#include "/etc/passwd"\n*/\n', []),
    ('const char *s = "#include </etc/passwd>";\n', []),
    ("#if defined(__has_include) && __has_include(<mma.h>)\n#endif\n", []),
    ("#ifdef __has_include\n#endif\n", []),
    ("#define CAT(a, b) a##b\n#if CUDA_VERSION > 9\nint CAT(x, y);\n#endif\n", []),
    ('const char *s = R"(a " b)";\nint x = 10\'000;\n', []),
    ("int a = 5 % 3; int b = a %:: c;\n", []),
    ("#line 7 // x\n# 12 /* y */\n#line 9\n", []),
]


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_source_is_refused(what):
    with pytest.raises(gpuopt.CompileError) as caught:
        scan.headers(HOSTILE[what], "kernel.cu")
    assert caught.value.line > 0
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize(("source", "wanted"), HARMLESS)
def test_headers_of_a_harmless_source(source, wanted):
    assert [each.name for each in scan.headers(source, "kernel.cu")] == wanted


def test_error_shows_the_line_of_the_original():
    source = 'int a;\nint \\\nb;\n  #include "/x"\n'
    with pytest.raises(gpuopt.CompileError) as caught:
        scan.headers(source, "mine.cu")
    assert (caught.value.line, caught.value.column) == (4, 3)
    head, shown, caret = str(caught.value).split("\n")
    assert head.startswith("mine.cu(4): error: ")
    assert shown[caret.index("^")] == "#"


@pytest.mark.parametrize(
    ("source", "text"), [("//" + 10_000_000 * "x", "10,000,002 bytes"), ("int x;\0", "NUL")]
)
def test_sources_have_limits(source, text):
    with pytest.raises(gpuopt.CompileError, match=text):
        scan.headers(source, "kernel.cu")


# Each of them took minutes, or years, where an expression backtracks.
LONG = {
    "comments after include": "#include " + "/**/" * 500_000 + "H\n",
    "comments after has_include": "#if __has_include" + "/* */" * 500_000 + " H\n#endif\n",
    "comments without an end": "#include " + "/*" * 1_900_000,
    "a backslash and blanks": "\\" + " " * 3_900_000,
    "macros of macros": "#define M0 a##b\n"
    + "".join(f"#define M{i + 1} M{i}\n" for i in range(100_000))
    + "#if M100000\n#endif\n",
    "quotes": '"\\' * 1_900_000,
}


@pytest.mark.parametrize("what", LONG)
def test_long_source_is_read_in_linear_time(what):
    begun = time.process_time()
    try:
        scan.headers(LONG[what], "kernel.cu")
    except gpuopt.CompileError as error:
        assert len(str(error)) < 10_000
    assert time.process_time() - begun < 20


def test_error_has_no_line_of_a_file_that_the_source_names(nvrtc):
    for head in ('#line 1 "/etc/passwd"', '# 1 "/etc/passwd"'):
        with pytest.raises(gpuopt.CompileError, match="number only"):
            gpuopt.compile(f"{head}\n__global__ void k() {{}}", device="sim")


def test_no_options_may_be_an_empty_text(nvrtc):
    assert gpuopt.compile("__global__ void k() {}", options="", device="sim").kernels == ["k"]
