#include "import/import.h"
int hm_import_is_inspector(const char *path){(void)path;return 0;}
hm_status_t hm_import_inspector(const char *const *files, uint32_t n, const char *run){(void)files;(void)n;(void)run;
 return hm_fail(HM_E_MISSING,"import","inspector: not built yet");}
