// Patterns of many file names: "/data/shard-{000..099}.tar", "/data/{cats,dogs}/*.tar".
#ifndef DPIPE_DATA_TARS_SHARD_PATTERN_H_
#define DPIPE_DATA_TARS_SHARD_PATTERN_H_

#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// Expands braces as a shell does. {000..099} counts, with as many digits as the first number has;
// {a,b} lists. Braces may be nested and combined, in the shell's order: the last one varies
// fastest. At most 100,000 names. Returns InvalidArgument, naming the pattern, if braces do not
// match, a range is reversed, or there are too many names.
absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& pattern);

// Returns the files that match a pattern. Expands braces first, then *, ? and [...] in each name,
// whose matches are in byte order. Returns NotFound, naming it, for a name without a file.
absl::StatusOr<std::vector<std::string>> FindShards(const std::string& pattern);

}  // namespace dpipe

#endif  // DPIPE_DATA_TARS_SHARD_PATTERN_H_
