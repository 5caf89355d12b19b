// Names of many files written as one: "/data/shard-{000..099}.tar", "/data/{cats,dogs}/*.tar".
#ifndef DPIPE_DATA_SHARD_PATTERN_H_
#define DPIPE_DATA_SHARD_PATTERN_H_

#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// Braces as in a shell: {000..099} counts, with as many digits as the first number has; {a,b}
// lists. Several are nested or combined in the shell's order, the last varying fastest. At most
// 100,000 names. InvalidArgument, naming the pattern: braces that do not match, a range that runs
// backwards, too many names.
absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& pattern);

// The files that a pattern stands for: braces first, then *, ? and [...] in each name, whose
// matches come in byte order. NotFound, naming it, for a name without a file.
absl::StatusOr<std::vector<std::string>> FindShards(const std::string& pattern);

}  // namespace dpipe

#endif  // DPIPE_DATA_SHARD_PATTERN_H_
