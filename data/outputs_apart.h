// Ensures that a program's output never becomes its data, and never deletes its data.
#ifndef DPIPE_DATA_OUTPUTS_APART_H_
#define DPIPE_DATA_OUTPUTS_APART_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

// A path and its name in messages: {"--out=", "/my/run"}, {"the log ", "/my/log"}.
struct NamedPath {
  std::string name;
  std::string path;
};

// Both functions follow symlinks, and neither path needs to exist. `data` may be a pattern of
// shards (shard_pattern.h). An empty path passes every check.

// Returns InvalidArgument, with both paths, if `output` is inside the folder `data`, so that the
// next run would read it. Files beside shards are allowed.
absl::Status CheckNotInData(const NamedPath& output, const NamedPath& data);

// Returns InvalidArgument, with both paths, if the data is inside `output` or contains the file
// `output`, which will be replaced or renamed as a whole.
absl::Status CheckHasNoData(const NamedPath& output, const NamedPath& data);

}  // namespace dpipe

#endif  // DPIPE_DATA_OUTPUTS_APART_H_
