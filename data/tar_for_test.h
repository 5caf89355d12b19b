// Tar files in memory, for tests.
#ifndef DPIPE_DATA_TAR_FOR_TEST_H_
#define DPIPE_DATA_TAR_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpipe {

// A ustar header of 512 bytes with a right checksum; the name has at most 100 bytes.
std::string TarHeader(const std::string& name, int64_t size, char type = '0');

// Sets the checksum of the header at `offset` to what it should be.
void FixTarChecksum(std::string* tar, size_t offset);

// A header, the content, and zeros up to a multiple of 512.
std::string TarEntry(const std::string& name, const std::string& content, char type = '0');

// Entries one after another, and two blocks of zeros.
std::string MakeTar(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace dpipe

#endif  // DPIPE_DATA_TAR_FOR_TEST_H_
