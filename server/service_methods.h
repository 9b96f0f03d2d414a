#ifndef KILN_SERVER_SERVICE_METHODS_H_
#define KILN_SERVER_SERVICE_METHODS_H_

#include "server/admin_service.h"
#include "server/cache_service.h"
#include "server/compile_service.h"
#include "server/raw_methods.h"

namespace kiln {

// Adds all methods of a service, which outlives `methods`.
void AddMethods(CompileService& service, RawMethods& methods);
void AddMethods(AdminService& service, RawMethods& methods);
void AddMethods(CacheService& service, RawMethods& methods);

}  // namespace kiln

#endif  // KILN_SERVER_SERVICE_METHODS_H_
