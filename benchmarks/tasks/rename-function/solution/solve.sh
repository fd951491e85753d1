#!/bin/sh
sed -i 's/import load, save/import read_record, save/; s/"load", "save"/"read_record", "save"/' store/__init__.py
sed -i 's/^def load/def read_record/; s/return load(/return read_record(/; s/what load reads/what read_record reads/' store/files.py
sed -i 's/files\.load(/files.read_record(/' store/config.py
sed -i 's/import load as read/import read_record as read/; s/files\.load(/files.read_record(/' app.py
sed -i 's/store\.load(/store.read_record(/' docs/usage.md
