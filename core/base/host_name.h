// The name of this host.
#ifndef DPIPE_CORE_BASE_HOST_NAME_H_
#define DPIPE_CORE_BASE_HOST_NAME_H_

#include <string>

namespace dpipe {

// As `hostname` says it; empty where the system does not know.
std::string HostName();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_NAME_H_
