#!/usr/bin/env python3
"""What a program compiled against s2.h relies on: prototypes, numbers of enums, sizes and places of members.

usage: abi.py CC HEADER > tests/library/abi.txt
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def plain(header):
    text = re.sub(r"/\*.*?\*/", " ", pathlib.Path(header).read_text(), flags=re.S)
    return re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.S | re.M)


def members(body):
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        for name in re.sub(r"\[[^\]]*\]", "", declaration).split(","):
            yield re.search(r"(\w+)\s*$", name).group(1)


def program(text, header):
    lines = ["#include <stdio.h>", "#include <stddef.h>", f'#include "{pathlib.Path(header).resolve()}"', "int main(void) {",
             'printf("version %d\\n", S2_API_VERSION / 1000);']
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\}", text, re.S):
        for value in re.findall(r"\b(S2_API_\w+)", body):
            lines.append(f'printf("enum {name} {value} %d\\n", (int){value});')
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, re.S):
        for member in members(body):
            lines.append(f'printf("struct {name}.{member} at %zu, %zu bytes\\n", offsetof({name}, {member}), '
                         f"sizeof((({name} *)0)->{member}));")
        lines.append(f'printf("struct {name} %zu bytes\\n", sizeof({name}));')
    return "\n".join(lines + ["return 0; }"])


def main():
    compiler, header = sys.argv[1:3]
    text = plain(header)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "abi.c")
        source.write_text(program(text, header))
        subprocess.run([*compiler.split(), "-std=c11", source, "-o", f"{folder}/abi"], check=True)
        print(subprocess.run([f"{folder}/abi"], capture_output=True, text=True, check=True).stdout, end="")
    for prototype in re.findall(r"^S2_API (.*?);", text, re.S | re.M):
        print(re.sub(r"\s+", " ", prototype))


if __name__ == "__main__":
    main()
