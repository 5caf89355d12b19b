// Suggestions for a misspelled name.
#ifndef DPIPE_CORE_BASE_TEXT_DID_YOU_MEAN_H_
#define DPIPE_CORE_BASE_TEXT_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace dpipe {

// Returns the optimal string alignment distance: the number of insertions, deletions, replacements
// and transpositions of neighbouring characters (each pair once) that turn `a` into `b`. O(|a|
// |b|).
size_t EditDistance(const std::string& a, const std::string& b);

// Returns "; did you mean --model.lora_rank?", or "" if no candidate is near. Names may be paths
// with dots. Candidates with `name` as their last part or as one of their groups come before those
// that differ from it by a few characters. `prefix`, such as "--", is put before each.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates,
                       const std::string& prefix);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_DID_YOU_MEAN_H_
