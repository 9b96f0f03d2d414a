// Texts as gRPC 1.51 has them, and what we say instead.
#include "client/connection_trouble.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string Told(const std::string& said) {
  return ConnectionTrouble(said).value_or("not ours");
}

std::string AfterAll(const std::string& last) {
  return Told("failed to connect to all addresses; last error: " + last);
}

TEST(ConnectionTrouble, NamesTheAddressWhatWasFoundAndWhatToDo) {
  EXPECT_EQ(
      AfterAll("UNKNOWN: ipv4:127.0.0.1:7117: Failed to connect to remote "
               "host: Connection refused"),
      "127.0.0.1:7117: Connection refused; no daemon listens there: start "
      "one, or check the address");
  EXPECT_EQ(
      AfterAll("UNAVAILABLE: ipv6:%5B::1%5D:7117: recvmsg:Connection reset "
               "by peer"),
      "[::1]:7117: it closed the connection; a port with TLS takes the CA "
      "of the daemon (--tls-ca, KILN_TLS_CA)");
  EXPECT_EQ(
      AfterAll("UNKNOWN: ipv4:10.0.0.7:1: Custom verification check failed "
               "with error: UNAUTHENTICATED: Hostname Verification Check "
               "failed."),
      "10.0.0.7:1: its certificate is for other names; use one of those, "
      "or give it a certificate for this one");
  EXPECT_EQ(
      Told("DNS resolution failed for nope.example:7117: C-ares status is "
           "not ARES_SUCCESS qtype=A: Domain name not found"),
      "nope.example:7117: unknown host; check the name, or use the host's IP "
      "address");
}

TEST(ConnectionTrouble, WhatItDoesNotKnowIsPassedOnWithTheAddress) {
  EXPECT_EQ(AfterAll("UNKNOWN: ipv4:10.0.0.7:1: No buffer space available"),
            "10.0.0.7:1: cannot connect: No buffer space available");
  EXPECT_EQ(AfterAll("UNKNOWN: tired"), "cannot connect: UNKNOWN: tired");
  EXPECT_EQ(AfterAll(""), "cannot connect: ");
}

TEST(ConnectionTrouble, LeavesAnswersAlone) {
  for (const char* said : {"", "Socket closed", "token ci: not known",
                           "graph: Connection refused"}) {
    EXPECT_FALSE(ConnectionTrouble(said).has_value()) << said;
  }
}

}  // namespace
}  // namespace kiln
