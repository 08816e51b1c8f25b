# Make one C table of the text files given: s2_sim_texts[] of sim/gpu.h. Folders but sim/gpus become part of names.
BEGIN { print "#include \"sim/gpu.h\"\nconst s2_sim_text s2_sim_texts[] = {" }
FNR == 1 {
    if (open) print "    },"
    name = FILENAME
    room = name ~ /peers\// ? "peers/" : name ~ /calibration\// ? "calibration/" : name ~ /results\// ? "results/" : ""
    sub(/.*\//, "", name)
    sub(/\.(txt|jsonl|csv)$/, "", name)
    name = room name
    printf "    {\"%s\",\n", name
    open = 1
}
{
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf "     \"%s\\n\"\n", $0
}
END { print "    },\n    {NULL, NULL},\n};" }
