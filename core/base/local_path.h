// Names of models and data sets that are somewhere else, given as if they were here.
#ifndef DPIPE_CORE_BASE_LOCAL_PATH_H_
#define DPIPE_CORE_BASE_LOCAL_PATH_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

enum class HubKind { kModel, kDataset };

// NotFound, naming the flag, its value and the command that fetches it, if `given`, the value of
// --flag, is a URL, a command ("pipe:curl ..."), or what names a model or data set on the Hugging
// Face hub, "user/name", while there is no such path here, nor a folder "user". Nothing is
// downloaded here. Other values are OK, whether they are there or not.
absl::Status CheckIsLocal(const std::string& flag, const std::string& given, HubKind kind);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_LOCAL_PATH_H_
