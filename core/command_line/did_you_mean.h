// Suggestions for a name that does not exist.
#ifndef DPIPE_CORE_COMMAND_LINE_DID_YOU_MEAN_H_
#define DPIPE_CORE_COMMAND_LINE_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace dpipe {

// Insertions, deletions, replacements and exchanges of neighbouring characters (each pair once)
// that turn `a` into `b`: the optimal string alignment distance. O(|a| |b|).
size_t EditDistance(const std::string& a, const std::string& b);

// "; did you mean --model.lora_rank?", or "" where no candidate is near. Names may be paths with
// dots. Those with `name` as their last part, or as one of the groups that they belong to, come
// before those that differ from it by few characters. `prefix` is put before each, as "--".
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_DID_YOU_MEAN_H_
