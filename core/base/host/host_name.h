// The name of this host.
#ifndef DPIPE_CORE_BASE_HOST_HOST_NAME_H_
#define DPIPE_CORE_BASE_HOST_HOST_NAME_H_

#include <string>

namespace dpipe {

// Returns the name that `hostname` prints, or "" if the system does not know it.
std::string HostName();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_HOST_NAME_H_
