// Numbers of things, in words.
#ifndef DPIPE_CORE_BASE_COUNT_H_
#define DPIPE_CORE_BASE_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// "1 step", "2 steps", "0 steps": of nouns whose plural ends in s.
std::string Count(int64_t count, absl::string_view noun);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_COUNT_H_
