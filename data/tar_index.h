// Where the members of a tar file lie, so that any of them can be read without the others.
//
// Reads ustar headers with pax ("x") and GNU ("L", base-256 sizes) extensions: what GNU tar, BSD
// tar and Python's tarfile write [POSIX.1-2017, pax, "ustar Interchange Format"]. Our own reader
// and not a library's, as those hand out members one after another, and training reads them in an
// order that is a function of (seed, epoch) alone. A compressed tar has no such places, and the
// error says how to unpack it.
//
// The file may be anything. Checksums are checked, sizes are checked against the file before they
// are used, and names, members and extension headers are bounded. Nothing is ever unpacked, so a
// name is no more than a name: neither "../x" nor a link leads anywhere.
#ifndef DPIPE_DATA_TAR_INDEX_H_
#define DPIPE_DATA_TAR_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// A regular file in a tar.
struct TarMember {
  std::string name;  // without "./" in front
  int64_t offset;    // of its first byte in the tar
  int64_t size;
};

struct TarLimits {
  int64_t max_members = 10'000'000;  // of any kind
  int64_t max_name_bytes = 4096;
  int64_t max_extension_bytes = 1 << 20;  // a pax or long-name header
};

// In the file's order; folders, links and devices are left out. One read of 512 bytes a header.
//
// NotFound: no such file; Unavailable: it cannot be read. InvalidArgument, with the offset: not a
// tar, a wrong checksum, a member that ends past the file, or no end mark (two blocks of zeros; one
// is enough here), which is how a file that was cut off between members is told. ResourceExhausted:
// a limit. Unimplemented: a sparse member.
absl::StatusOr<std::vector<TarMember>> ReadTarIndex(const std::string& path,
                                                    const TarLimits& limits = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_TAR_INDEX_H_
