// What a profile says, for people.
#ifndef DPIPE_TOOLS_PLANNING_PROFILE_TEXT_H_
#define DPIPE_TOOLS_PLANNING_PROFILE_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/proto/profile.pb.h"

namespace dpipe::tools {

// "1,2,4" as numbers. InvalidArgument where they are not positive and increasing.
absl::StatusOr<std::vector<int>> ParseLocalBatches(absl::string_view text);

// A line for every component and local batch: layers, forward, input gradient and weight gradient
// of all of them, images a second; then how it was measured.
std::string ProfileText(const ModelProfile& profile);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_PROFILE_TEXT_H_
