// Macros that propagate absl::Status.
#ifndef DPIPE_CORE_BASE_STATUS_H_
#define DPIPE_CORE_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expr` (an absl::Status) is not OK.
#define DPIPE_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::absl::Status dpipe_status_ = (expr);         \
    if (!dpipe_status_.ok()) return dpipe_status_; \
  } while (false)

#define DPIPE_STATUS_CONCAT_INNER_(a, b) a##b
#define DPIPE_STATUS_CONCAT_(a, b) DPIPE_STATUS_CONCAT_INNER_(a, b)

// DPIPE_ASSIGN_OR_RETURN(auto x, F()) sets x to the value of F(), or returns its error.
#define DPIPE_ASSIGN_OR_RETURN(lhs, expr) \
  DPIPE_ASSIGN_OR_RETURN_IMPL_(DPIPE_STATUS_CONCAT_(dpipe_statusor_, __LINE__), lhs, expr)
#define DPIPE_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)  \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = std::move(statusor).value()

#endif  // DPIPE_CORE_BASE_STATUS_H_
