#ifndef KILN_CLIENT_C_API_C_HANDLES_H_
#define KILN_CLIENT_C_API_C_HANDLES_H_

#include <memory>

#include "client/artifact_shelf.h"
#include "client/c_api/kiln.h"
#include "client/session.h"

// The C types wrap the C++ ones.

struct KilnSession {
  std::shared_ptr<kiln::Session> session;
};

struct KilnShelf {
  std::shared_ptr<kiln::ArtifactShelf> shelf;
};

struct KilnCallable {
  std::shared_ptr<kiln::Callable> callable;
};

#endif  // KILN_CLIENT_C_API_C_HANDLES_H_
