// Consistency checks of a session's options.
#ifndef DPIPE_CORE_RUNTIME_SESSION_SESSION_CHECKS_H_
#define DPIPE_CORE_RUNTIME_SESSION_SESSION_CHECKS_H_

#include "core/base/status.h"
#include "core/runtime/session/local_session.h"

namespace dpipe {

// Returns InvalidArgument, naming both sides, if plans, models, workers and communicators do not
// match, and Unimplemented for a plan that these devices cannot run.
absl::Status CheckSessionOptions(const LocalSessionOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_SESSION_CHECKS_H_
