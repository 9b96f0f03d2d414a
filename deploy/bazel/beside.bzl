"""How a program or shared library finds the libraries that travel with it."""

# In its own folder. DT_RPATH, not RUNPATH: it serves the libraries of libraries too.
LIBRARIES_BESIDE = ["-Wl,--disable-new-dtags,-rpath,$$ORIGIN"]
