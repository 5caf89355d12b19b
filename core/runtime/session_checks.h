// Whether what a session is made of fits together.
#ifndef DPIPE_CORE_RUNTIME_SESSION_CHECKS_H_
#define DPIPE_CORE_RUNTIME_SESSION_CHECKS_H_

#include "core/base/status.h"
#include "core/runtime/local_session.h"

namespace dpipe {

// InvalidArgument where plans, models, workers and communicators do not match, naming both sides;
// Unimplemented for a plan that these devices do not run.
absl::Status CheckSessionOptions(const LocalSessionOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_CHECKS_H_
