// What a program writes must never become its data, nor go away with it.
#ifndef DPIPE_DATA_OUTPUTS_APART_H_
#define DPIPE_DATA_OUTPUTS_APART_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

// A path with what messages call it: {"--out=", "/my/run"}, {"the log ", "/my/log"}.
struct NamedPath {
  std::string name;
  std::string path;
};

// In both, symlinks are followed, and neither path needs to exist. `data` may be a pattern of
// shards (shard_pattern.h). An empty path is apart from all others.

// InvalidArgument, with both paths, if `output` lies in the folder `data`, so that the next run
// would read it. Files beside shards are none of them.
absl::Status CheckNotInData(const NamedPath& output, const NamedPath& data);

// InvalidArgument, with both paths, if the data lies in `output`, which is replaced or renamed as a
// whole.
absl::Status CheckHasNoData(const NamedPath& output, const NamedPath& data);

}  // namespace dpipe

#endif  // DPIPE_DATA_OUTPUTS_APART_H_
