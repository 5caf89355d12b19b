// Counts with their nouns, for messages.
#ifndef DPIPE_CORE_BASE_COUNT_H_
#define DPIPE_CORE_BASE_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// Returns "1 step", "2 steps" or "0 steps". The noun's plural must end in s.
std::string Count(int64_t count, absl::string_view noun);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_COUNT_H_
