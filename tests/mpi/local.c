/* Loads a module that brings MPI along, with RTLD_LOCAL, as Python does with mpi4py.
 *
 * usage: local MODULE. This program itself knows no MPI: no symbol of it is in the global scope.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int (*run)(int, char **);
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *at = module ? dlsym(module, "plain_main") : NULL;
    if (!at) {
        fprintf(stderr, "local: %s\n", argc > 1 ? dlerror() : "no module");
        return 1;
    }
    memcpy(&run, &at, sizeof(run));
    return run(argc, argv);
}
