/* Start the Python of this folder with the C library of this folder: the machine may have another one, or none.
   Linked statically. As `agent` it runs the agent, under any other name it is the interpreter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 4096

static char *below(const char *root, const char *name) {
    char *path = malloc(strlen(root) + strlen(name) + 1);
    return path ? strcat(strcpy(path, root), name) : NULL;
}

int main(int argc, char **argv) {
    char root[LONGEST];
    ssize_t length = readlink("/proc/self/exe", root, sizeof root - 1);
    if (length <= 0) {
        fputs("agent: /proc is not mounted\n", stderr);
        return 127;
    }
    root[length] = 0;
    char *name = strrchr(root, '/');
    int is_agent = strcmp(name, "/agent") == 0;
    *name = 0;
    *strrchr(root, '/') = 0;

    char **words = calloc(argc + 8, sizeof *words), **word = words;
    char *loader = below(root, "/lib/ld.so");
    *word++ = loader;
    *word++ = "--library-path";
    *word++ = below(root, "/lib");
    *word++ = "--argv0";
    *word++ = below(root, "/bin/python3");
    *word++ = below(root, "/libexec/python3");
    if (is_agent) {
        *word++ = "-I";
        *word++ = below(root, "/libexec/agent");
    }
    memcpy(word, argv + 1, argc * sizeof *argv);
    execv(loader, words);
    perror(loader);
    return 127;
}
